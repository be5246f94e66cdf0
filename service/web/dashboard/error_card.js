// The share of wrong labels over the rounds: recent, since the start with its interval, and the most that theory allows.

import { Chart, Legend } from "./chart.js";
import { EMPTY_ROUNDS, boundRate, cumulativeRate, topOf, trailingRate, windowOf } from "./curve.js";
import { card, h, setText } from "./dom.js";
import { count, percent, percentTick, plural, shortCount, wholePercent } from "./format.js";
import { band } from "./interval.js";
import { Marks } from "./marks.js";

/** What the interval means. */
export function intervalInWords({ error_rate_interval: interval, rounds }) {
  if (!interval) return "";
  if (interval.low <= 0 && interval.high >= 1)
    return "So few rounds do not tell yet how large the chance of a mistake is.";
  const over = interval.rounds === rounds.revealed ? "the rounds so far" : `the last ${plural(interval.rounds, "round")}`;
  return [
    `The chance of a mistake, averaged over ${over}, is between ${percent(interval.low)} and ${percent(interval.high)}`,
    `with ${wholePercent(interval.confidence)} confidence, however often you look.`,
  ].join(" ");
}

export class ErrorCard {
  #chart = new Chart();
  #legend = new Legend();
  #words = h("p", { class: "words" });
  #marks;
  #stats = null;
  element = card("Error over rounds", "wide", this.#legend.element, this.#chart.element, this.#words);

  constructor(name) {
    this.#marks = new Marks(name, () => this.#stats && this.#draw(this.#stats));
  }

  close() {
    this.#marks.close();
  }

  show(stats) {
    this.#stats = stats;
    this.#marks.follow(stats);
    this.#draw(stats);
  }

  #draw(stats) {
    const rounds = stats.rounds.revealed;
    const window = windowOf(rounds);
    const recent = trailingRate(stats.curve, window);
    const isShown = ([round]) => round >= rounds / 100;
    const cumulative = cumulativeRate(stats.curve).filter(isShown);
    const interval = band(stats.curve, stats.error_rate_interval).filter(isShown);
    const limit = stats.bound.verdict === "within" ? stats.bound.mistake_bound : null;
    const yMax = topOf([recent, cumulative], rounds, limit);
    const series = [
      { name: `Last ${count(window)} rounds`, kind: "recent", points: recent },
      { name: "All rounds", kind: "cumulative", points: cumulative },
      {
        name: `Where that is, ${wholePercent(stats.error_rate_interval?.confidence)} sure`,
        kind: "band",
        points: interval,
      },
      {
        name: "The most the bound allows",
        kind: "bound",
        points: boundRate(limit, rounds, yMax),
      },
    ];
    setText(this.#words, intervalInWords(stats));
    this.#legend.show(series);
    this.#chart.draw({
      series,
      marks: this.#marks.of(stats),
      xMax: rounds || EMPTY_ROUNDS,
      yMax,
      nameX: "Round",
      formatX: shortCount,
      formatY: percentTick,
      leastX: 1,
      formatValue: { x: count, y: percent },
      title: "Error over rounds",
      text: `Wrong in ${percent(stats.error_rate)} of ${plural(rounds, "round")}, ${percent(stats.ewma_error_rate)} recently.`,
    });
  }
}
