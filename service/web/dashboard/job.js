// A job of the service, followed until it is over.

import { getJson, request } from "./api.js";
import { pause } from "./timing.js";

const LOOK_AGAIN_MS = 400;

/** Follow a job: `onChange(job)` at each look. The job when it is over; null if the signal came first. */
export async function follow(id, onChange, signal) {
  const path = `jobs/${encodeURIComponent(id)}`;
  while (!signal.aborted) {
    const job = await getJson(path, { signal });
    if (signal.aborted) return null;
    onChange(job);
    if (job.state !== "running") return job;
    await pause(LOOK_AGAIN_MS, signal);
  }
  return null;
}

export async function cancel(id) {
  await request(`jobs/${encodeURIComponent(id)}`, { method: "DELETE" });
}
