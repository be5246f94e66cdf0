// The events of a model from the newest back. The service pages its audit trail from the oldest on and by numbers that
// all models share, so places are looked for: ahead by doubling steps, back by halving.

import { getJson, modelPath } from "../lib/api.js";

const REQUESTS_MAX = 40;
const LOOKED_AT_ONCE = 200;
const LOOKS_MAX = 10;

function reader(model, limit) {
  const path = `${modelPath("models", model)}/events`;
  return (after) => getJson(`${path}?${new URLSearchParams({ cursor: after, limit })}`);
}

/** About the last `wanted` events after `seq`, and whether they are all; `guess` is how many there may be. */
export async function lastEvents(model, wanted, { seq = 0, guess = 0 } = {}) {
  const read = reader(model, wanted);
  let page = await read(seq);
  let found = page.events;
  const isAll = page.next === null;
  let low = seq;
  let high = Infinity;
  let step = Math.max(wanted, guess - 2 * wanted);
  for (let i = 1; !isAll && high - low > 1 && i < REQUESTS_MAX; i += 1) {
    const middle = high === Infinity ? low + step : Math.floor((low + high) / 2);
    page = await read(middle);
    if (page.next !== null) {
      low = middle;
      found = page.events;
      step *= 2;
    } else {
      if (page.events.length) found = page.events;
      if (page.events.length > wanted / 2) break;
      high = middle;
    }
  }
  return { events: found, isAll };
}

/** Some of the events right before the number `before`, oldest first, and whether there are no others before them. */
async function someBefore(model, before) {
  const read = reader(model, LOOKED_AT_ONCE);
  let step = LOOKED_AT_ONCE;
  let tooFar = null; // from here on there are more than fit into an answer
  for (let i = 0; i < REQUESTS_MAX; i += 1) {
    const low = Math.max(0, before - 1 - step);
    const { events, next } = await read(low);
    const isWhole = next === null || events.at(-1).seq >= before - 1;
    const found = events.filter(({ seq }) => seq < before);
    if (isWhole && (found.length || low === 0)) return { events: found, isAll: low === 0 };
    if (isWhole) step = tooFar === null ? 4 * step : Math.ceil((step + tooFar) / 2);
    else {
      tooFar = step;
      step = Math.floor(step / 2);
    }
  }
  return { events: [], isAll: true };
}

/** The `wanted` newest events before a number that `isSought`, newest first; `end` is the number that was looked back
 * to, null at the beginning of the trail. It may be fewer: a look does not go back for ever. */
export async function eventsBefore(model, before, wanted, isSought = () => true) {
  const found = [];
  let end = before;
  for (let i = 0; i < LOOKS_MAX && found.length < wanted && end !== null; i += 1) {
    const { events, isAll } = await someBefore(model, end);
    const sought = events.filter(isSought).reverse();
    const room = wanted - found.length;
    found.push(...sought.slice(0, room));
    if (sought.length > room) end = found.at(-1).seq;
    else end = isAll || !events.length ? null : events[0].seq;
  }
  return { events: found, end };
}

// Which events of the trail a later rollback has undone: those after the moment to which it went back.

const ROLLBACKS_A_PAGE = 1000;
const ROLLBACK_PAGES_MAX = 20;
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
    for (let i = 0; i < ROLLBACK_PAGES_MAX && next !== null; i += 1) {
      const query = new URLSearchParams({ kinds: "rolled_back", cursor: next, limit: ROLLBACKS_A_PAGE });
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
