// What the horizontal axis of a model's chart counts.

import { count, shortCount } from "./format.js";

/** How an axis reads, writes and shows its values. `parse` and `write` are for the link. */
export const ROUNDS = {
  name: "Round",
  title: "Error over rounds",
  parse: (text) => (/^\d{1,15}$/.test(text) ? Number(text) : null),
  write: String,
  round: Math.round,
  format: shortCount,
  formatValue: count,
  inWords: ({ from, to, isAll }) => (isAll ? "" : `Rounds ${count(from)} to ${count(to)}`),
};
