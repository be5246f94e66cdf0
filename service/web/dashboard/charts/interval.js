// Where the chance of a mistake is, at all times at once: the interval of service/learning/certainty/anytime.py.

const geometric = (from, to, steps, many) =>
  Array.from({ length: many }, (_, i) => from * (to / from) ** (i / steps));
const RATES = [...geometric(0.004, 6, 63, 64), ...geometric(1e-7, 0.004, 32, 32)];
const GROWTH = RATES.map(Math.expm1);
const LOG_WEIGHTS = RATES.map((_, i) => Math.log(i < 64 ? 0.9 / 64 : 0.1 / 32));
const STEPS_MAX = 100;

/** The smallest mean at which the logarithm of the mixture is at most `level`: Newton's method, from the left. */
function least(hits, rounds, level) {
  let m = 0;
  for (let step = 0; step < STEPS_MAX; step += 1) {
    const terms = RATES.map((rate, i) => LOG_WEIGHTS[i] + rate * hits - rounds * Math.log1p(m * GROWTH[i]));
    const largest = Math.max(...terms);
    const shares = terms.map((term) => Math.exp(term - largest));
    const total = shares.reduce((sum, share) => sum + share, 0);
    const above = largest + Math.log(total) - level;
    if (above <= 0) break;
    const slope = shares.reduce((sum, share, i) => sum + (share * GROWTH[i]) / (1 + m * GROWTH[i]), 0);
    const further = (above * total) / (rounds * slope);
    m += further;
    if (further < m * 1e-12) break;
  }
  return Math.min(m, hits / rounds);
}

/** [low, high] of the mean chance of a mistake, after so many mistakes in so many rounds. */
export function intervalOfShare(mistakes, rounds, confidence) {
  const level = Math.log(2 / (1 - confidence));
  return [least(mistakes, rounds, level), 1 - least(rounds - mistakes, rounds, level)];
}

/** [[round, low, high], …] along a curve of mistakes that ends with `interval`, as the service tells it. */
export function band({ rounds, mistakes }, interval) {
  if (!interval) return [];
  const points = rounds
    .slice(0, -1)
    .map((t, i) => [t, ...intervalOfShare(mistakes[i], t, interval.confidence)])
    .filter(([t]) => t > 0);
  return [...points, [interval.rounds, interval.low, interval.high]];
}
