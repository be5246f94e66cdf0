// The versions of a model on a slider. The one that is looked at is in the link; without one it is now.

import { ask, askedIn } from "../lib/address.js";
import { getJson, modelPath, postJson } from "../lib/api.js";
import { h, setText } from "../lib/dom.js";
import { count, dateTime } from "../lib/format.js";
import { Throttle } from "../lib/timing.js";

const EVERY_MS = 120;

/** The version in the address, or null: "#/models/spam?at=12" → 12. */
export function versionIn(hash) {
  const at = askedIn(hash).get("at");
  return /^\d{1,15}$/.test(at ?? "") ? Number(at) : null;
}

/** Calls `onChange(stats)` with the statistics of an older version, and `onChange(null)` when it is now again. */
export class VersionsBar {
  #name;
  #onChange;
  #at = versionIn(location.hash);
  #shown = null;
  #newest = null;
  #oldest = 0;
  #created = null;
  #read = new Throttle(() => this.#load(), EVERY_MS);
  #slider = h("input", {
    type: "range",
    id: "version",
    step: "1",
    oninput: () => this.#go(Number(this.#slider.value)),
  });
  #number = h("output", { for: "version" });
  #words = h("p", { class: "words", role: "status" });
  #back = h("button", { type: "button", class: "primary", onclick: () => this.now() }, "Back to now");
  #rollback = h(
    "details",
    { class: "rollback", "data-needs": "admin", hidden: true },
    h("summary", {}, "Roll back to this version"),
    h(
      "p",
      {},
      "The model becomes what it was then, and pending predictions become void. Another rollback undoes it. ",
      h("button", { type: "button", class: "grave", onclick: () => this.#goBack() }, "Roll back"),
    ),
  );
  element = h(
    "section",
    { class: "versions", "aria-label": "Versions" },
    h("label", { for: "version" }, "Version"),
    this.#slider,
    this.#number,
    this.#back,
    this.#words,
    this.#rollback,
  );

  constructor(name, onChange) {
    this.#name = name;
    this.#onChange = onChange;
    if (this.#at !== null) this.#read.ask();
  }

  /** The version that is looked at; null if that is the present one. */
  get at() {
    return this.#at;
  }

  /** Its statistics, once they are here. */
  get shown() {
    return this.#shown;
  }

  close() {
    this.#read.stop();
  }

  /** What the model is now: the end of the slider. */
  follow({ version, created_at: created }) {
    if (this.#created !== created) this.#oldest = 0;
    this.#created = created;
    this.#newest = version;
    this.#draw();
  }

  /** Back to the present. */
  now() {
    const hadFocus = document.activeElement === this.#back;
    this.#go(null);
    if (hadFocus) this.#slider.focus();
  }

  #go(version) {
    this.#choose(version === null || version >= this.#newest ? null : version);
    setText(this.#words, "");
    if (this.#at === null) {
      this.#shown = null;
      this.#onChange(null);
    } else this.#read.ask();
    this.#draw();
  }

  async #goBack() {
    const to = this.#at;
    try {
      await postJson(`${modelPath("models", this.#name)}/rollback`, { to });
      this.now();
      setText(this.#words, `The model was rolled back to version ${count(to)}.`);
    } catch (error) {
      setText(this.#words, error.message);
    }
    this.#rollback.open = false;
  }

  #choose(version) {
    this.#at = version;
    ask({ at: version });
  }

  async #load() {
    const at = this.#at;
    if (at === null) return;
    try {
      const stats = await getJson(`${modelPath("stats", this.#name)}?${new URLSearchParams({ at })}`);
      if (this.#at === null) return;
      this.#shown = stats;
      this.#onChange(stats);
      this.#draw();
    } catch (error) {
      if (this.#at !== at || !error.status) return;
      if (error.oldest !== undefined) this.#oldest = Math.max(this.#oldest, error.oldest);
      this.#choose(this.#shown?.version ?? null);
      this.#onChange(this.#shown);
      this.#draw();
      setText(this.#words, goneInWords(error, at, this.#shown));
    }
  }

  #draw() {
    const newest = this.#newest ?? this.#at ?? 0;
    this.element.hidden = newest === 0 && this.#at === null;
    this.element.classList.toggle("past", this.#at !== null);
    this.#slider.min = Math.min(this.#oldest, newest);
    this.#slider.max = newest;
    this.#slider.value = this.#at ?? newest;
    this.#slider.setAttribute("aria-valuetext", valueText(this.#at, newest));
    setText(this.#number, this.#at === null ? `${count(newest)}, now` : `${count(this.#at)} of ${count(newest)}`);
    this.#back.hidden = this.#rollback.hidden = this.#at === null;
    if (this.#at !== null && this.#shown?.version === this.#at)
      setText(this.#words, `You see the model as it was on ${dateTime(this.#shown.updated_at)}.`);
  }
}

function valueText(at, newest) {
  return at === null ? `version ${count(newest)}, now` : `version ${count(at)} of ${count(newest)}`;
}

/** Why a version cannot be shown, and what is shown instead. */
export function goneInWords(error, at, shown) {
  const instead = shown ? `This page shows version ${count(shown.version)}.` : "This page shows the current model.";
  if (error.status === 410) {
    const oldest = error.oldest === undefined ? "" : ` The oldest available is ${count(error.oldest)}.`;
    return `Version ${count(at)} is no longer kept.${oldest} ${instead}`;
  }
  if (error.status === 422) return `There is no version ${count(at)} yet. ${instead}`;
  return `Version ${count(at)} cannot be shown: ${error.message}. ${instead}`;
}
