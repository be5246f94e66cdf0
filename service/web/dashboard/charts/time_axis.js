// A chart's axis of time: milliseconds since 1970, shown in the viewer's time zone.

import { dateTime } from "../lib/format.js";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((each) => each * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((each) => each * MINUTE),
  ...[1, 2, 3, 6, 12].map((each) => each * HOUR),
  ...[1, 2, 7, 14, 28, 91, 182, 364, 728, 1820, 3640].map((each) => each * DAY),
];
const USUAL_TIMES = 10;
const SEEN_PARTS = 50;
const DATE = { day: "numeric", month: "short" };
const CLOCK = { hour: "2-digit", minute: "2-digit" };

/** Round times from one to another, of which about `about` fit, and how far apart they are; on the clock of this zone. */
export function timeTicks(from, to, about) {
  const step = STEPS.find((each) => each >= (to - from) / about) ?? STEPS.at(-1);
  const ahead = -MINUTE * new Date(from).getTimezoneOffset();
  const values = [];
  for (let at = Math.ceil((from + ahead) / step) * step - ahead; at <= to; at += step) values.push(at);
  return { values, step };
}

/** A time beside an axis whose ticks are so far apart. */
export function timeTick(time, step) {
  const at = new Date(time);
  if (step >= DAY) return at.toLocaleString("en-GB", step >= 91 * DAY ? { ...DATE, year: "numeric" } : DATE);
  if (at.getHours() + at.getMinutes() + at.getSeconds() + at.getMilliseconds() === 0) return at.toLocaleString("en-GB", DATE);
  const seconds = step < MINUTE ? { second: "2-digit" } : {};
  const parts = step < SECOND ? { fractionalSecondDigits: 3 } : {};
  return at.toLocaleTimeString("en-GB", { ...CLOCK, ...seconds, ...parts });
}

/** The points of a curve whose times are known: {rounds, times}, both ascending. The last reveal came by `updated`. */
export function knownTimes({ rounds, times = [] }, updated) {
  const known = { rounds: [], times: [] };
  rounds.forEach((round, i) => {
    const isLast = i === rounds.length - 1 && round > 0;
    const at = times[i] ?? (isLast ? Date.parse(updated) : null);
    if (at === null) return;
    known.rounds.push(round);
    known.times.push(Math.max(at, known.times.at(-1) ?? at)); // the clocks of replicas differ a little
  });
  return known;
}

/** How far apart two points are at least between which nothing came for long: further than is usual, and to be seen on an
 * axis that goes from one time to another. */
export function silenceOf(times, from, to) {
  const apart = times.slice(1).map((time, i) => time - times[i]);
  apart.sort((a, b) => a - b);
  const usual = apart[Math.floor(apart.length / 2)] ?? 0;
  return Math.max(USUAL_TIMES * usual, (to - from) / SEEN_PARTS);
}

/** Where a line through points that ascend is at `x`, or null where there is none; where it stands upright, its
 * beginning, or with `isEnd` its end. */
export function along(xs, ys, x, isEnd = false) {
  if (!xs.length || x < xs[0] || x > xs.at(-1)) return null;
  const at = isEnd ? xs.findLastIndex((each) => each <= x) : xs.findIndex((each) => each >= x);
  if (xs[at] === x) return ys[at];
  const [before, after] = isEnd ? [at, at + 1] : [at - 1, at];
  const part = (x - xs[before]) / (xs[after] - xs[before]);
  return ys[before] + part * (ys[after] - ys[before]);
}

/** From a time in a link: "2026-11-17T14:05:09.000Z". */
export function parseTime(text) {
  const at = /^\d{4}-\d\d-\d\dT/.test(text) ? Date.parse(text) : NaN;
  return Number.isNaN(at) ? null : at;
}

export function writeTime(time) {
  return new Date(time).toISOString();
}

export function timesInWords({ from, to }) {
  return `${dateTime(from)} to ${dateTime(to)}`;
}
