// The last events of a model. The service pages its audit trail from the oldest on, so the end is looked for:
// ahead by doubling steps, back by halving.

import { getJson, modelPath } from "./api.js";

const REQUESTS_MAX = 40;

/** About the last `wanted` events after `seq`, and whether they are all; `guess` is how many there may be. */
export async function lastEvents(model, wanted, { seq = 0, guess = 0 } = {}) {
  const read = (after) =>
    getJson(`${modelPath("models", model)}/events?${new URLSearchParams({ cursor: after, limit: wanted })}`);
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
