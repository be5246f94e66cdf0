// From the curve of mistakes over rounds to rates of error. The curve has at most 512 points.

const WINDOW_MIN = 32;
const WINDOWS = 40;
const NEAR = 4;

/** How far the axis goes of a model that has no rounds yet. */
export const EMPTY_ROUNDS = 10;

/** How many rounds "recent" means on a chart of so many; not fewer than there are from one point to the next. */
export function windowOf(rounds, stride = 1) {
  const wanted = Math.max(WINDOW_MIN, rounds / WINDOWS, stride);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= wanted);
}

/** [[round, mistakes / round], …] over all rounds so far. */
export function cumulativeRate({ rounds, mistakes }) {
  const points = [];
  for (let i = 0; i < rounds.length; i += 1) {
    if (rounds[i] > 0) points.push([rounds[i], mistakes[i] / rounds[i]]);
  }
  return points;
}

/** [[round, share of mistakes among the `window` rounds before], …]. */
export function trailingRate({ rounds, mistakes }, window) {
  const points = [];
  let behind = 0;
  for (let i = 0; i < rounds.length; i += 1) {
    const from = rounds[i] - window;
    if (from < 0) continue;
    while (rounds[behind + 1] <= from) behind += 1;
    const width = rounds[behind + 1] - rounds[behind];
    const part = width > 0 ? (from - rounds[behind]) / width : 0;
    const before = mistakes[behind] + part * ((mistakes[behind + 1] ?? mistakes[behind]) - mistakes[behind]);
    points.push([rounds[i], (mistakes[i] - before) / window]);
  }
  return points;
}

/** [[round, bound / round], …] from the round `first` on: no more than this may be wrong, where that is below `yMax`. */
export function boundRate(bound, rounds, yMax, first = 0) {
  const from = Math.max(first, bound / yMax);
  if (bound === null || !(from < rounds)) return [];
  return Array.from({ length: 65 }, (_, i) => from + ((rounds - from) * i) / 64).map((t) => [t, bound / t]);
}

/** How many rounds there are from one point of a curve to the next; the last one may be nearer. */
export function strideOf({ rounds }) {
  return rounds[1] ?? 1;
}

/** The points from one value to another, and one beyond each end, to which the line goes. */
export function between(points, from, to) {
  const first = points.findIndex(([at]) => at >= from);
  const last = points.findLastIndex(([at]) => at <= to);
  if (first < 0 || last < 0) return [];
  return points.slice(Math.max(0, first - 1), last + 2);
}

/** A top for the axis that the first few rounds, where every rate is wild, do not decide. A bound that would
 * be just above it comes into sight. */
export function topOf(series, rounds, bound = null) {
  const settled = series
    .flat()
    .filter(([round]) => round >= Math.min(rounds, Math.max(WINDOW_MIN, rounds / 20)));
  if (!settled.length) return 1;
  const highest = Math.max(0.02, ...settled.map(([, rate]) => rate));
  const limit = bound === null || bound / rounds > NEAR * highest ? 0 : (1.4 * bound) / rounds;
  return Math.min(1, Math.max(highest * 1.15, limit));
}

/** A curve with the present added, for what the feed tells between two readings of the whole. */
export function extend(curve, round, mistakes) {
  const last = curve.rounds.at(-1) ?? 0;
  if (round < last) return { rounds: [0, round], mistakes: [0, mistakes] };
  if (round === last) return curve;
  const keep = (_, i) => curve.rounds.length < 512 || i % 2 === 0;
  return {
    rounds: [...curve.rounds.filter(keep), round],
    mistakes: [...curve.mistakes.filter(keep), mistakes],
  };
}
