// The lines of a comparison: the recent error of each, over as many rounds as it has enough of.

import { strideOf, trailingRate, windowOf } from "../charts/curve.js";
import { count } from "../lib/format.js";

const NO_CURVE = { rounds: [0], mistakes: [0], since: 0 };
const ALIKE_POINTS = 8;
const DASHES = 3;

/** {series, rounds, window} of a chart: its lines, how far its axis goes, and over how many rounds most lines tell the
 * error. One that has fewer rounds than that tells it over fewer, in its `window`. */
export function linesOf(entrants) {
  const curves = entrants.map(({ curve }) => curve ?? NO_CURVE);
  const rounds = Math.max(0, ...curves.map((curve) => curve.since + curve.rounds.at(-1)));
  const window = windowOf(rounds);
  const series = [];
  entrants.forEach(({ text }, i) => {
    const own = windowFor(curves[i], window);
    const points = trailingRate(curves[i], own).map(([round, rate]) => [curves[i].since + round, rate]);
    // Of lines that lie on each other, the upper ones are dashed, so that those beneath are seen in their gaps.
    const beneath = Math.min(DASHES, series.filter((each) => areAlike(each.points, points)).length);
    series.push({ name: text, kind: `expert-${i}${beneath ? ` dashed-${beneath}` : ""}`, window: own, points });
  });
  return { series, rounds, window };
}

function windowFor(curve, window) {
  const many = curve.rounds.at(-1);
  return many >= window ? window : Math.min(window, windowOf(many, strideOf(curve)));
}

/** Whether two lines are the same for a while. */
function areAlike(some, others) {
  const rates = new Map(some);
  let alike = 0;
  for (const [round, rate] of others) {
    alike = rates.get(round) === rate ? alike + 1 : 0;
    if (alike >= ALIKE_POINTS) return true;
  }
  return false;
}

/** Why some have no line or one over fewer rounds, and what the lines of challengers are about. */
export function wordsOnLines(entrants, series, window) {
  const words = [];
  const missing = series.filter(({ points }) => !points.length);
  for (const [least, some] of Map.groupBy(missing, (each) => each.window))
    words.push(`No line yet for ${namesOf(some)}: one tells the error over ${count(least)} rounds.`);
  const shorter = series.filter((each) => each.points.length && each.window < window);
  for (const [own, some] of Map.groupBy(shorter, (each) => each.window))
    words.push(`The error of ${namesOf(some)} is over ${count(own)} rounds, that of others over ${count(window)}.`);
  if (series.some(({ kind }) => kind.includes("dashed"))) words.push("Where lines are the same, the upper one is dashed.");
  if (entrants.some(({ contest }) => contest)) words.push("A challenger's line and figures are about the rounds since it entered.");
  return words.join(" ");
}

function namesOf(series) {
  return series.map(({ name }) => name).join(", ");
}
