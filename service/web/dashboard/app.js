// Which view is shown, by the part of the address after #.

import { allowAsking, installKey } from "./lib/key.js";
import { learnRole } from "./lib/role.js";
import { openCompare } from "./views/compare.js";
import { openFleet } from "./views/fleet.js";
import { openInbox } from "./views/inbox.js";
import { openModel } from "./views/model.js";
import { openNewModel } from "./views/new_model.js";

const main = document.getElementById("main");

let view = null;
let kind = null;
let fleetAddress = "#/";

/** "#/models/spam" → the model; "#/models/spam/labels" → its inbox; "#/?sort=rounds" → the fleet, so sorted. */
function parse(hash) {
  const [path, text] = hash.replace(/^#\/?/, "").split("?");
  const [place, name, part] = path.split("/");
  const query = new URLSearchParams(text ?? "");
  if (place === "new" || place === "compare") return { name: "", part: place, query };
  return place === "models" && name ? { name: decodeName(name), part, query } : { query };
}

function decodeName(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function show() {
  const { name, part, query } = parse(location.hash);
  const before = kind;
  kind = name === undefined ? "fleet" : (part ?? "model");
  if (kind === before && view?.follow) {
    view.follow(query);
    return;
  }
  const isFirst = view === null;
  view?.close();
  allowAsking();
  learnRole();
  if (name === undefined) {
    view = openFleet(main, query, (address) => (fleetAddress = address));
    document.title = "Novikoff";
  } else if (part === "compare") {
    view = openCompare(main, query);
    document.title = "Compare · Novikoff";
  } else if (part === "new") {
    view = openNewModel(main);
    document.title = "New model · Novikoff";
  } else if (part === "labels") {
    view = openInbox(main, name, query);
    document.title = `Labels for ${name} · Novikoff`;
  } else {
    view = openModel(main, name, () => fleetAddress);
    document.title = `${name} · Novikoff`;
  }
  window.scrollTo(0, 0);
  if (!isFirst) main.querySelector("h1")?.focus({ preventScroll: true });
}

function reopen() {
  view?.close();
  view = null;
  kind = null;
  show();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

document.addEventListener("keydown", (event) => {
  const search = document.getElementById("search");
  const isTyping = event.target.closest?.("input, textarea, select");
  if (event.key !== "/" || isTyping || !search || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  search.focus();
});

window.addEventListener("hashchange", show);
installKey(learnRole, reopen);
show();
