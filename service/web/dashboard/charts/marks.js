// The marks on a model's chart: every drift, promotion, reset, rollback and fit that its statistics have gone through, as
// the audit trail has them.

import { getJson, modelPath } from "../lib/api.js";
import { count } from "../lib/format.js";
import { Throttle } from "../lib/timing.js";

const EVERY_MS = 3000;
const PAGE = 1000;
const REQUESTS_MAX = 50;
const BEGINNINGS = ["created", "imported"];
const WORDS = {
  drift: () => "drift",
  promoted: ({ challenger }) => `${challenger} promoted`,
  fitted: () => "fit",
  reset: () => "reset",
  rolled_back: () => "rollback",
};

export class Marks {
  #name;
  #onChange;
  #cursor = 0;
  #log = []; // {at, marks} after each event: the newest mark, which knows the one before it
  #seen = null;
  #read = new Throttle(() => this.#load(), EVERY_MS);

  constructor(name, onChange) {
    this.#name = name;
    this.#onChange = onChange;
  }

  close() {
    this.#read.stop();
  }

  /** Look for what is new; the trail is read when the statistics tell of something that is not known. */
  follow({ created_at: created, drift, challengers, rounds, version }) {
    const others = version - rounds.revealed; // what else has raised the version: resets, rollbacks, fits
    const seen = JSON.stringify([created, drift.count, challengers?.promotions ?? 0, others]);
    if (seen === this.#seen) return;
    if (this.#seen !== null && JSON.parse(this.#seen)[0] !== created) {
      this.#cursor = 0;
      this.#log = [];
    }
    this.#seen = seen;
    if (drift.count || challengers?.promotions || others) this.#read.ask();
  }

  /** [{kind, round, at, text}] of a model with these statistics, now or then, the oldest first. The round of a fit
   * or rollback by an older version is not known, and null. A drift that the trail has not yet is among them, without its time. */
  of({ drift, rounds, updated_at: until }) {
    const marks = [];
    for (let each = this.#standing(until); each; each = each.before) {
      if (each.round === null || each.round <= rounds.revealed) marks.push(each);
    }
    const last = drift.last_round;
    if (last !== null && !marks.some(({ round, kind }) => round === last && kind === "drift"))
      marks.push(mark("drift", { round: last, at: null }));
    return marks;
  }

  async #load() {
    let next = this.#cursor;
    if (next === 0) this.#log = [];
    try {
      for (let i = 0; i < REQUESTS_MAX && next !== null; i += 1) {
        const query = new URLSearchParams({ kinds: [...BEGINNINGS, ...Object.keys(WORDS)], cursor: next, limit: PAGE });
        const page = await getJson(`${modelPath("models", this.#name)}/events?${query}`);
        for (const event of page.events) this.#take(event);
        this.#cursor = Math.max(next, page.next ?? 0, page.events.at(-1)?.seq ?? 0);
        next = page.next;
      }
      this.#onChange();
    } catch {
      this.#seen = null; // the next frame asks again
    }
  }

  #take(event) {
    if (event.seq > this.#cursor) this.#log.push({ at: event.at, marks: this.#after(event) });
  }

  /** The marks after an event. Where statistics begin anew, so do they; a rollback brings back those of then. */
  #after(event) {
    const { kind, as_of: then } = event;
    if (BEGINNINGS.includes(kind)) return null;
    if (kind === "reset") return mark(kind, { ...event, round: 0 });
    if (kind === "rolled_back") return mark(kind, event, then ? this.#standing(then) : null);
    return mark(kind, event, this.#log.at(-1)?.marks);
  }

  #standing(until) {
    return this.#log.findLast(({ at }) => at <= until)?.marks ?? null;
  }
}

function mark(kind, event, before = null) {
  const { round = null, at } = event;
  const text = round === null ? WORDS[kind](event) : `${WORDS[kind](event)}, ${count(round)}`;
  return { kind, round, at, text, before };
}
