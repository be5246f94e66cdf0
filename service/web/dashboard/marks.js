// The marks on a model's chart: every drift and every promotion since its statistics began, as the audit trail has them.

import { getJson, modelPath } from "./api.js";
import { count } from "./format.js";
import { Throttle } from "./timing.js";

const EVERY_MS = 3000;
const PAGE = 1000;
const REQUESTS_MAX = 50;
const BEGINNINGS = ["created", "imported", "reset", "rolled_back"];
const KINDS = ["drift", "promoted", ...BEGINNINGS];

export class Marks {
  #name;
  #onChange;
  #cursor = 0;
  #found = [];
  #seen = null;
  #read = new Throttle(() => this.#load(), EVERY_MS);

  constructor(name, onChange) {
    this.#name = name;
    this.#onChange = onChange;
  }

  close() {
    this.#read.stop();
  }

  /** Look for what is new; the trail is read when the statistics tell of a drift or a promotion that is not known. */
  follow({ created_at: created, drift, challengers, rounds }) {
    const seen = JSON.stringify([created, drift.count, challengers?.promotions ?? 0, rounds.revealed === 0]);
    if (seen === this.#seen) return;
    if (this.#seen !== null && JSON.parse(this.#seen)[0] !== created) this.#cursor = 0;
    this.#seen = seen;
    if (drift.count || challengers?.promotions) this.#read.ask();
    else this.#found = []; // the trail has nothing to tell
  }

  /** [{x, text}] of a chart with so many rounds. A drift that the trail has not yet is among them. */
  of({ drift, rounds }) {
    const marks = this.#found.filter(({ x }) => x <= rounds.revealed);
    const last = drift.last_round;
    if (last !== null && !marks.some(({ x, kind }) => x === last && kind === "drift")) marks.push(mark("drift", last));
    return marks.sort((a, b) => a.x - b.x);
  }

  async #load() {
    let next = this.#cursor;
    if (next === 0) this.#found = [];
    try {
      for (let i = 0; i < REQUESTS_MAX && next !== null; i += 1) {
        const query = new URLSearchParams({ kinds: KINDS, cursor: next, limit: PAGE });
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

  /** Where statistics begin anew, so do the marks. After a rollback they are those of an older version. */
  #take({ kind, round, challenger, seq }) {
    if (seq <= this.#cursor) return;
    if (BEGINNINGS.includes(kind)) this.#found = [];
    else this.#found.push(mark(kind, round, challenger));
  }
}

function mark(kind, round, challenger) {
  const word = kind === "drift" ? "drift" : `${challenger} promoted`;
  return { kind, x: round, text: `${word}, ${count(round)}` };
}
