// Which events of the trail a later rollback has undone: those after the moment to which it went back.

import { getJson, modelPath } from "./api.js";

const PAGE = 1000;
const REQUESTS_MAX = 20;
/** What a rollback takes back; predictions that expired or were voided stay so. */
const KINDS = ["revealed", "learned", "rounds", "drift", "fitted", "reset", "rolled_back", "promoted"];

export class Undone {
  #path;
  #spans = [];

  constructor(model) {
    this.#path = `${modelPath("models", model)}/events`;
  }

  /** Read all rollbacks of the model. */
  async read() {
    const rollbacks = [];
    let next = 0;
    for (let i = 0; i < REQUESTS_MAX && next !== null; i += 1) {
      const query = new URLSearchParams({ kinds: "rolled_back", cursor: next, limit: PAGE });
      const page = await getJson(`${this.#path}?${query}`);
      rollbacks.push(...page.events);
      next = page.next;
    }
    this.#spans = [];
    // One that was undone itself undoes nothing, so the newest comes first.
    for (const rollback of rollbacks.toReversed()) {
      const { seq, as_of: after } = rollback; // older versions have not noted it
      if (after && this.by(rollback) === null) this.#spans.push({ seq, after });
    }
  }

  /** The number of the rollback that has undone an event, or null. */
  by(event) {
    if (!KINDS.includes(event.kind)) return null;
    return this.#spans.find((span) => isIn(span, event))?.seq ?? null;
  }
}

function isIn({ seq, after }, event) {
  return event.seq < seq && event.at > after;
}
