// The share of wrong labels over the rounds: recent, since the start, and the most that theory allows.

import { Chart, Legend } from "./chart.js";
import { boundRate, cumulativeRate, topOf, trailingRate, windowOf } from "./curve.js";
import { card } from "./dom.js";
import { count, percent, plural, shortCount } from "./format.js";

export class ErrorCard {
  #chart = new Chart();
  #legend = new Legend();
  #drifts = new Set();
  element = card("Error over rounds", "wide", this.#legend.element, this.#chart.element);

  show(stats) {
    const rounds = stats.rounds.revealed;
    const window = windowOf(rounds);
    const recent = trailingRate(stats.curve, window);
    const cumulative = cumulativeRate(stats.curve).filter(([round]) => round >= rounds / 100);
    const limit = stats.bound.verdict === "within" ? stats.bound.mistake_bound : null;
    const yMax = topOf([recent, cumulative], rounds, limit);
    const series = [
      { name: `Last ${count(window)} rounds`, kind: "recent", points: recent },
      { name: "All rounds", kind: "cumulative", points: cumulative },
      {
        name: "The most the bound allows",
        kind: "bound",
        points: boundRate(limit, rounds, yMax),
      },
    ];
    this.#legend.show(series);
    this.#chart.draw({
      series,
      marks: this.#marks(stats.drift, rounds),
      xMax: Math.max(rounds, 1),
      yMax,
      nameX: "Round",
      formatX: shortCount,
      formatY: (value) => percent(value, yMax < 0.04 ? 1 : 0),
      formatValue: { x: count, y: percent },
      title: "Error over rounds",
      text: `Wrong in ${percent(stats.error_rate)} of ${plural(rounds, "round")}, ${percent(stats.ewma_error_rate)} recently.`,
    });
  }

  /** The service tells of the last drift; those before it are known if this page saw them. */
  #marks({ last_round: last }, rounds) {
    if (last !== null) this.#drifts.add(last);
    for (const round of this.#drifts) if (round > rounds) this.#drifts.delete(round);
    return [...this.#drifts].map((round) => ({ x: round, text: `drift, ${count(round)}` }));
  }
}
