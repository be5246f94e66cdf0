// What is compared: figures of /stats, and settings that are not the same.

import { NOTHING, count, duration, labelText, percent, score } from "./format.js";

const FIGURES = [
  ["Algorithm", ({ algorithm }) => algorithm],
  ["Rounds", ({ rounds }) => count(rounds.revealed)],
  ["Error rate", (stats) => percent(stats.error_rate)],
  ["Its chance is between", ({ error_rate_interval: interval }) => interval && `${percent(interval.low)} and ${percent(interval.high)}`],
  ["Recent error", (stats) => percent(stats.ewma_error_rate)],
  ["Error of the last 1,000 rounds", ({ windows }) => percent(windows.last_1000.error_rate)],
  ["Mistakes", ({ mistakes }) => count(mistakes)],
  ["Updates", ({ updates }) => count(updates)],
  ["κ, against chance", ({ baselines }) => score(baselines.kappa)],
  ["Always the commonest label would err", ({ baselines }) => percent(baselines.majority_error_rate)],
  ["Drifts", ({ drift }) => count(drift.count)],
  ["Pending", ({ rounds }) => count(rounds.pending)],
  ["90% of labels within", ({ delay }) => duration(delay.seconds.p90)],
  ["Weights", ({ features }) => count(features.weights)],
];

/** [[name, text of each model…]] */
export function figuresOf(models) {
  return FIGURES.map(([name, text]) => [name, ...models.map(({ stats }) => text(stats) ?? NOTHING)]);
}

/** [[setting, value of each…]] of those settings that are not the same for all. */
export function differing(settings) {
  const all = settings.map((each) => new Map(flat(each)));
  const names = [...new Set(all.flatMap((each) => [...each.keys()]))].sort();
  return names
    .map((name) => [name, ...all.map((each) => each.get(name) ?? NOTHING)])
    .filter(([, first, ...others]) => others.some((text) => text !== first));
}

function flat(value, name = "") {
  if (value !== null && typeof value === "object" && !Array.isArray(value))
    return Object.entries(value).flatMap(([key, each]) => flat(each, name ? `${name}.${key}` : key));
  return [[name.replaceAll("_", " "), Array.isArray(value) ? value.map(labelText).join(", ") : labelText(value)]];
}
