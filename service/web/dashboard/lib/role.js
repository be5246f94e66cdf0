// What the key that is used may do. What needs a role says so by `data-needs`, words for those who lack it by
// `data-lacks`, and page.css shows the one or the other: nothing is offered that would be refused.

import { getJson } from "./api.js";
import { pause } from "./timing.js";

const ROLES = ["read", "write", "admin"];
const AGAIN_MS = 2000;

let asking = null;

/** {may(role), prefix}: whether a role is enough for what needs `role`. */
export async function loadRole() {
  const { role, prefix } = await getJson("whoami");
  return { may: (needed) => isEnough(role, needed), prefix };
}

/** Whether what needs `role` is shown. */
export function mayNow(needed) {
  return isEnough(document.documentElement.dataset.role, needed);
}

/** Find out what may be shown; while the service is away it is asked again. */
export async function learnRole() {
  asking?.abort();
  const mine = (asking = new AbortController());
  while (!mine.signal.aborted) {
    try {
      const { role } = await getJson("whoami", { signal: mine.signal });
      if (!mine.signal.aborted) document.documentElement.dataset.role = role;
      return;
    } catch (error) {
      if (mine.signal.aborted) return;
      if (error.status === 401 || error.status === 403) {
        delete document.documentElement.dataset.role;
        return;
      }
      await pause(AGAIN_MS, mine.signal);
    }
  }
}

function isEnough(role, needed) {
  return ROLES.indexOf(role) >= ROLES.indexOf(needed);
}
