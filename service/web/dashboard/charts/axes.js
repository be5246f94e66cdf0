// What the horizontal axis of a model's chart counts: rounds, or time.

import { ask, askedIn } from "../lib/address.js";
import { h } from "../lib/dom.js";
import { count, dateTime, shortCount } from "../lib/format.js";
import { EMPTY_ROUNDS, strideOf } from "./curve.js";
import { along, knownTimes, parseTime, silenceOf, timesInWords, timeTick, timeTicks, writeTime } from "./time_axis.js";

const LEAST_ROUNDS = 10;
const LEAST_POINTS = 4;
const LEAST_MS = 20;

/** How an axis reads, writes and shows its values: `parse` and `write` are for the link, `of(stats, marks)` is where
 * things are: {first, last, least, place(round), rounds(from, to), markAt(mark)}, null where something has no place;
 * `silence(from, to)` is how far apart points are, of those shown, between which no line is drawn. */
export const ROUNDS = {
  name: "Round",
  title: "Error over rounds",
  leastStep: 1,
  parse: (text) => (/^\d{1,15}$/.test(text) ? Number(text) : null),
  write: String,
  round: Math.round,
  format: shortCount,
  formatValue: count,
  markText: ({ text }) => text,
  inWords: ({ from, to, isAll }) => (isAll ? "" : `Rounds ${count(from)} to ${count(to)}`),
  of: ({ rounds, curve }) => ({
    first: 0,
    last: rounds.revealed || EMPTY_ROUNDS,
    least: Math.max(LEAST_ROUNDS, LEAST_POINTS * strideOf(curve)),
    place: (round) => round,
    rounds: (from, to) => [from, to],
    markAt: ({ round }) => round,
    silence: () => Infinity,
  }),
};

export const TIME = {
  name: "",
  title: "Error over time",
  ticks: timeTicks,
  parse: parseTime,
  write: writeTime,
  round: Math.round,
  format: timeTick,
  formatValue: dateTime,
  markText: ({ text, at }) => (at === null ? text : `${text}, ${dateTime(at)}`),
  inWords: timesInWords,
  of({ curve, updated_at: updated }, marks) {
    const { rounds, times } = knownTimes(curve, updated);
    const place = (round) => along(rounds, times, round);
    const markAt = ({ at, round }) => (at === null ? place(round) : Date.parse(at));
    // A reset is before the first reveal, and a fit may be after the last one.
    const ends = [times[0], times.at(-1), ...marks.map(markAt).filter((at) => at !== null)];
    const within = (time) => Math.max(times[0], Math.min(times.at(-1), time));
    const between = (from, to) => [along(times, rounds, within(from)), along(times, rounds, within(to), true)];
    const [first, last] = [Math.min(...ends), Math.max(...ends)];
    const silence = (start, end) => silenceOf(times, start, end);
    return { first, last, least: LEAST_MS, place, rounds: between, markAt, silence };
  },
};

/** Whether a model's points have times, over which something can be drawn. */
export function hasTimes({ curve, updated_at: updated }) {
  const { times } = knownTimes(curve, updated);
  return times.length > 1 && times.at(-1) - times[0] > LEAST_MS;
}

/** Two buttons, of which one is pressed; the axis is in the link. */
export class AxisSwitch {
  #onChange;
  #isTime = askedIn(location.hash).get("axis") === "time";
  #buttons = [ROUNDS, TIME].map((axis) =>
    h("button", { type: "button", onclick: () => this.#choose(axis === TIME) }, axis === TIME ? "Time" : "Rounds"),
  );
  element = h("div", { class: "axis-switch", role: "group", "aria-label": "Axis" }, this.#buttons);

  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** The axis for these statistics: rounds, if there are no times. */
  of(stats) {
    const isPossible = hasTimes(stats);
    this.element.hidden = !isPossible;
    const axis = this.#isTime && isPossible ? TIME : ROUNDS;
    this.#buttons.forEach((button, i) => button.setAttribute("aria-pressed", String((i === 1) === (axis === TIME))));
    return axis;
  }

  #choose(isTime) {
    if (isTime === this.#isTime) return;
    this.#isTime = isTime;
    ask({ axis: isTime ? "time" : null, from: null, to: null });
    this.#onChange();
  }
}
