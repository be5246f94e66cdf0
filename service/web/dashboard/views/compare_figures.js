// What is compared: figures of /stats, and settings that are not the same.

import { confidenceText, within } from "../cards/challengers.js";
import { sinceInWords } from "../lib/entrants.js";
import { count, duration, labelText, NOTHING, percent, plural, real, score } from "../lib/format.js";

/** What both a model and a challenger have; of a challenger it is about the rounds since it entered. */
const SHARED = [
  ["Algorithm", algorithmInWords],
  ["Rounds", ({ rounds }) => count(rounds.revealed ?? rounds)],
  ["Error rate", (figures) => percent(figures.error_rate)],
  ["Its chance is between", ({ error_rate_interval: interval }) => interval && `${percent(interval.low)} and ${percent(interval.high)}`],
  ["Mistakes", ({ mistakes }) => count(mistakes)],
  ["Updates", ({ updates }) => count(updates)],
];
const OF_MODELS = [
  ["Recent error", (stats) => percent(stats.ewma_error_rate)],
  ["Error of the last 1,000 rounds", ({ windows }) => percent(windows.last_1000.error_rate)],
  ["κ, compared with chance", ({ baselines }) => score(baselines.kappa)],
  ["Error of always the most common label", ({ baselines }) => percent(baselines.majority_error_rate)],
  ["Drifts", ({ drift }) => count(drift.count)],
  ["Pending", ({ rounds }) => count(rounds.pending)],
  ["90% of labels within", ({ delay }) => duration(delay.seconds.p90)],
  ["Weights", ({ features }) => count(features.weights)],
];
const OF_CHALLENGERS = [
  ["Beside its champion for", ({ difference_interval: interval }) => plural(interval?.rounds ?? 0, "round")],
  ["Difference to its champion", ({ difference, difference_interval: interval }) => within(difference, interval)],
  ["Won : lost against it", ({ won, lost }) => `${count(won)} : ${count(lost)}`],
  ["Evidence of being better", ({ evidence }) => real(evidence)],
  ["Confidence in that", ({ confidence }) => confidenceText(confidence)],
];

/** The present learner's, and since when, if another one has served before. */
function algorithmInWords({ algorithm, challengers }) {
  return challengers?.promotions ? `${algorithm}${sinceInWords(challengers.champion)}` : algorithm;
}

/** [[name, text of each…]]; what nobody of them has is left out. */
export function figuresOf(entrants) {
  const challengers = entrants.map(({ contest }) => (contest && "evidence" in contest ? contest : null));
  return [
    ...lines([["About", (about) => about]], entrants.map(({ about }) => about)),
    ...lines(SHARED, entrants.map(({ stats, contest }) => stats ?? contest)),
    ...lines(OF_CHALLENGERS, challengers),
    ...lines(OF_MODELS, entrants.map(({ stats }) => stats)),
  ];
}

function lines(figures, columns) {
  if (columns.every((each) => each === null)) return [];
  return figures.map(([name, text]) => [name, ...columns.map((each) => (each && text(each)) ?? NOTHING)]);
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
  return [[name.replaceAll("_", " "), valueText(value)]];
}

function valueText(value) {
  if (Array.isArray(value)) return value.map(labelText).join(", ");
  return Number.isInteger(value) && value >= 0 ? count(value) : labelText(value);
}
