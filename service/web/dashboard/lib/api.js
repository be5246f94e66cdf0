// Requests to the service: problems become exceptions, and a 401 asks the person for a key.

import { askForKey, currentKey } from "./key.js";

/** What the service refused, in its own words. */
export class Problem extends Error {
  constructor(status, code, detail, oldest) {
    super(detail);
    this.status = status;
    this.code = code;
    /** Of a version that is gone: the oldest that is not. */
    this.oldest = oldest;
  }
}

/** No response: the service, or the way to it, is down. */
export class Away extends Error {
  constructor() {
    super("The service does not respond. Try again in a moment.");
  }
}

/** The answer, if it is a good one. Paths are relative to the page, so that a prefix before it does no harm. */
export async function request(path, { headers = {}, ...options } = {}) {
  for (;;) {
    const key = currentKey();
    const answer = await reach(path, {
      ...options,
      headers: key ? { ...headers, Authorization: `Bearer ${key}` } : headers,
      credentials: "same-origin",
    });
    if (answer.ok) return answer;
    const problem = await problemOf(answer);
    if (answer.status !== 401 || !(await askForKey(key))) throw problem;
  }
}

async function reach(path, options) {
  try {
    return await fetch(new URL(path, document.baseURI), options);
  } catch (error) {
    throw options.signal?.aborted ? error : new Away();
  }
}

export async function getJson(path, options) {
  return (await request(path, options)).json();
}

export async function postJson(path, body, method = "POST") {
  const answer = await request(path, {
    method,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return answer.json();
}

export function modelPath(root, name) {
  return `${root}/${encodeURIComponent(name)}`;
}

async function problemOf(answer) {
  try {
    const { code, detail, oldest_version: oldest } = await answer.json();
    return new Problem(answer.status, code, detail ?? answer.statusText, oldest);
  } catch {
    return new Problem(answer.status, "unknown", `the service responded with status ${answer.status}`);
  }
}
