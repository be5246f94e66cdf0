// What is shown in place of a view: something was refused, or is not there.

import { h } from "./dom.js";

export function notice(title, text, ...actions) {
  return h(
    "div",
    { class: "notice" },
    h("h1", { tabindex: "-1" }, title),
    h("p", {}, text),
    h("p", { class: "actions" }, actions),
  );
}

/** A refusal of the service, with a way to try again. */
export function refusal(error) {
  const again = h(
    "button",
    { class: "primary", type: "button", onclick: () => location.reload() },
    "Try again",
  );
  if (error.status === 401)
    return notice("A key is needed", "This service answers those who have a key.", again);
  return notice("The service refused", error.message, again);
}
