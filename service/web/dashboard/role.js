// What the key that is used may do.

import { getJson } from "./api.js";

const ROLES = ["read", "write", "admin"];

/** {may(role), prefix}: whether a role is enough for what needs `role`. */
export async function loadRole() {
  const { role, prefix } = await getJson("whoami");
  return { may: (needed) => ROLES.indexOf(role) >= ROLES.indexOf(needed), prefix };
}
