// The light in the header: whether what is shown is so now.

import { setText } from "./dom.js";
import { clockTime } from "./format.js";

const light = document.getElementById("live");

let fresh = Date.now();

export function showState(state) {
  if (light.dataset.state === "live" && state !== "live") fresh = Date.now();
  light.dataset.state = state;
  setText(light, words(state));
}

function words(state) {
  switch (state) {
    case "live":
      return "Live";
    case "reconnecting":
      return "Reconnecting";
    case "stale":
      return `Stale since ${clockTime(fresh)}`;
    default:
      return "Connecting";
  }
}
