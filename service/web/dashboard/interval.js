// Where the chance of a mistake is, at all times at once: the interval of service/learning/certainty/anytime.py.

const GROUND = 10;
const POWER = 1.4;
const ZETA = 3.1055473;
const K1_SQUARED = (2 ** 0.25 + 2 ** -0.25) ** 2 / 2;
const K2 = (Math.SQRT2 + 1) / 2;

/** What a sum of terms between 0 and 1 exceeds, at any time, with probability at most `alpha`. */
export function boundary(variance, alpha) {
  const v = Math.max(variance, GROUND);
  const level =
    POWER * Math.log(Math.log((2 * v) / GROUND)) + Math.log(ZETA / Math.LN2 ** POWER / alpha);
  const tail = K2 * level;
  return Math.sqrt(K1_SQUARED * v * level + tail * tail) + tail;
}

/** [[round, low, high], …] along a curve of mistakes that ends with `interval`, as the service tells it.
 *
 * The service adds up how far each round was from the mean of those before it, which the curve does not tell. With
 * a rate of e after t rounds that sum is at most t e (1 − e) + 1/4 + ln t, so the band is a little wider than the
 * interval was. There is none if the interval is not about all rounds of the curve. */
export function band({ rounds, mistakes }, interval) {
  if (!interval || interval.rounds !== rounds.at(-1)) return [];
  const alpha = (1 - interval.confidence) / 2;
  const points = [];
  for (let i = 0; i < rounds.length - 1; i += 1) {
    const t = rounds[i];
    if (t === 0) continue;
    const rate = mistakes[i] / t;
    const radius = boundary(t * rate * (1 - rate) + 0.25 + Math.log(t), alpha) / t;
    points.push([t, Math.max(0, rate - radius), Math.min(1, rate + radius)]);
  }
  return [...points, [interval.rounds, interval.low, interval.high]];
}
