// The audit trail's end, in words.

import { card, h, table } from "./dom.js";
import { clockTime, count, dateTime, labelText, plural } from "./format.js";
import { Throttle } from "./timing.js";
import { lastEvents } from "./trail.js";
import { CORRECTIONS } from "./trail_words.js";

const SHOWN = 14;
const SOUGHT = 2 * SHOWN;
const EVERY_MS = 3000;

const KINDS = {
  created: () => "the model was made",
  imported: () => "the model came from an export",
  fitted: () => "a job trained it on a set of examples",
  dimension: ({ dimension }) => `examples have ${plural(dimension, "feature")}`,
  expired: ({ count: number }) => `${plural(number, "prediction")} will never be revealed`,
  rounds: ({ labels }) => `${plural(labels.length, "round")} learned at once`,
  drift: ({ round }) => `the error rose at round ${count(round)}`,
  reset: () => "back to the start",
  rolled_back: ({ to }) => `back to version ${count(to)}`,
  challenger_added: ({ challenger, warm }) =>
    `the challenger ${challenger} was added${warm ? `, with ${plural(warm.rounds, "round")} of history learned` : ""}`,
  challenger_removed: ({ challenger }) => `the challenger ${challenger} was removed`,
  promotion_rule: ({ promote }) => (promote ? "challengers are promoted by evidence" : "nobody is promoted by itself"),
  promoted: ({ challenger, former }) => `${challenger} serves in place of ${former}`,
  ...CORRECTIONS,
};

export class TrailCard {
  #name;
  #body = h("tbody");
  #events = [];
  #seen = null;
  #read = new Throttle(() => this.#load(), EVERY_MS);
  element = card(
    "Audit trail",
    "wide",
    h(
      "div",
      { class: "scroll trail" },
      table(
        "The last events of this model, newest first",
        ["Event", "Time", "Kind", "True label", "Served"],
        this.#body,
      ),
    ),
  );

  constructor(name) {
    this.#name = name;
  }

  close() {
    this.#read.stop();
  }

  show({ version, created_at: created, updated_at: updated }) {
    if (this.#seen?.updated === updated) return;
    if (this.#seen && this.#seen.created !== created) this.#events = [];
    this.#seen = { version, created, updated };
    this.#read.ask();
  }

  async #load() {
    const last = this.#events.at(-1);
    try {
      const since = last ? { seq: last.seq } : { guess: this.#seen.version };
      const { events, isAll } = await lastEvents(this.#name, SOUGHT, since);
      this.#events = (isAll ? [...this.#events, ...events] : events).slice(-SHOWN);
      this.#body.replaceChildren(...this.#events.toReversed().map(row));
    } catch {
      // The feed will ask again.
    }
  }
}

function row({ seq, kind, at, ...event }) {
  const isRound = "label" in event && !(kind in KINDS);
  const isWrong = kind === "drift" || (kind === "revealed" && event.served !== event.label);
  const told = isRound
    ? [h("td", {}, text(event.label)), h("td", {}, text(event.served))]
    : [h("td", { colspan: "2" }, KINDS[kind]?.(event) ?? "")];
  return h(
    "tr",
    { class: isWrong ? "wrong" : null },
    h("td", {}, count(seq)),
    h("td", {}, h("time", { datetime: at, title: dateTime(at) }, clockTime(at))),
    h("td", {}, kind, event.tag ? h("span", { class: "tag", title: event.tag }, event.tag) : null),
    told,
  );
}

function text(label) {
  return h("span", { class: "label", title: String(label ?? "") }, labelText(label));
}
