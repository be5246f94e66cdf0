// The light in the header: whether what is shown is so now; and below it, in words, that the service is away.

import { Away } from "./api.js";
import { h, setText } from "./dom.js";
import { clockTime, dateTime } from "./format.js";

const light = document.getElementById("live");
const words = h("span", { role: "status" });
const countdown = h("span", { "aria-hidden": "true" });
const away = h("p", { class: "away", hidden: true }, words, " ", countdown);
document.querySelector(".bar").after(away);

let fresh = null;
const waiting = new Map(); // element → the words in it that are so only while the service is away

/** Say in `element` why something failed. That nobody answered is taken back when the service is there again. */
export function sayFailure(element, error) {
  setText(element, error.message);
  if (error instanceof Away) waiting.set(element, error.message);
}

function takeBack() {
  for (const [element, text] of waiting) if (element.textContent === text) setText(element, "");
  waiting.clear();
}

/** `seconds` until the service is asked again, if it is away. */
export function showState(state, seconds = null) {
  if (light.dataset.state === "live" && state !== "live") fresh = Date.now();
  light.dataset.state = state;
  if (state === "live") takeBack();
  setText(light, inShort(state));
  // A page that has only just been opened says so when its first try has failed.
  const isAway = state !== "live" && (state !== "connecting" || seconds !== null);
  away.hidden = !isAway;
  if (!isAway) return;
  const kept = fresh === null ? "" : ` What you see is as of ${dateTime(fresh)}.`;
  setText(words, `The service does not respond.${kept}`);
  setText(countdown, seconds === null ? "Trying now …" : `Trying again in ${seconds} s.`);
}

function inShort(state) {
  switch (state) {
    case "live":
      return "Live";
    case "reconnecting":
      return "Reconnecting";
    case "stale":
      return fresh === null ? "No response" : `Stale since ${clockTime(fresh)}`;
    default:
      return "Connecting";
  }
}
