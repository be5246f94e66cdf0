// The share of wrong labels over the rounds: recent, since the start with its interval, and the most that theory allows.

import { AxisSwitch } from "../charts/axes.js";
import { Chart, Legend } from "../charts/chart.js";
import { between, boundRate, cumulativeRate, strideOf, topOf, trailingRate, windowOf } from "../charts/curve.js";
import { band } from "../charts/interval.js";
import { Marks } from "../charts/marks.js";
import { ChartRange } from "../charts/range.js";
import { card, h, setText } from "../lib/dom.js";
import { count, percent, percentTick, plural, wholePercent } from "../lib/format.js";

/** What the interval means. */
function intervalInWords(interval) {
  if (!interval) return "No rounds yet: the line begins with the first labels.";
  if (interval.low <= 0 && interval.high >= 1)
    return "Too few rounds to estimate the chance of a mistake.";
  return [
    `The chance of a mistake, averaged over the rounds so far, is between ${percent(interval.low)}`,
    `and ${percent(interval.high)}`,
    `with ${wholePercent(interval.confidence)} confidence, at any time you look.`,
  ].join(" ");
}

/** Why some events have no mark over rounds. */
function unmarkedInWords(many) {
  if (!many) return "";
  const are = plural(many, "fit or rollback is", "fits or rollbacks are");
  return `${are} marked over time only: an older version did not note the round.`;
}

export class ErrorCard {
  #switch = new AxisSwitch(() => this.#draw(this.#stats));
  #range = new ChartRange(() => this.#draw(this.#stats));
  #chart = new Chart((from, to) => this.#range.choose(from, to));
  #legend = new Legend();
  #words = h("p", { class: "words" });
  #unmarked = h("p", { class: "help" });
  #marks;
  #stats = null;
  element = card(
    "Error over rounds",
    "wide",
    this.#legend.element,
    h("div", { class: "chart-tools" }, this.#switch.element, this.#range.element),
    this.#chart.element,
    this.#words,
    this.#unmarked,
  );

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
    const axis = this.#switch.of(stats);
    const marks = this.#marks.of(stats);
    const { first, last, least, place, rounds, markAt, silence } = axis.of(stats, marks);
    this.#range.follow(axis);
    const { from, to } = this.#range.of(first, last, least);
    const { series, yMax } = seriesOf(stats, ...rounds(from, to));
    const isSeen = ({ x }) => x !== null && x >= from && x <= to;
    setText(this.element.querySelector("h2"), axis.title);
    setText(this.#words, intervalInWords(stats.error_rate_interval));
    setText(this.#unmarked, unmarkedInWords(marks.filter((mark) => markAt(mark) === null).length));
    this.#legend.show(series);
    this.#chart.draw({
      series: series.map((each) => ({ ...each, points: placed(each.points, place) })),
      marks: marks
        .map((mark) => ({ x: markAt(mark), text: mark.text, title: axis.markText(mark) }))
        .filter(isSeen)
        .sort((a, b) => a.x - b.x),
      silence: silence(from, to),
      xMin: from,
      xMax: to,
      yMax,
      nameX: axis.name,
      ticks: axis.ticks,
      formatX: axis.format,
      formatY: percentTick,
      leastX: axis.leastStep,
      formatValue: { x: axis.formatValue, y: percent },
      title: axis.title,
      text: `Wrong in ${percent(stats.error_rate)} of ${plural(stats.rounds.revealed, "round")}, ${percent(stats.ewma_error_rate)} recently.`,
    });
  }
}

/** Points that are given by their rounds, where these are on the axis. */
function placed(points, place) {
  return points.map(([round, ...values]) => [place(round), ...values]).filter(([x]) => x !== null);
}

/** The lines from one round to another, and the top of their axis. */
function seriesOf(stats, from, to) {
  const rounds = stats.rounds.revealed;
  const window = windowOf(to - from, strideOf(stats.curve));
  const isShown = ([round]) => round >= (to - from) / 100;
  const part = (points) => between(points, from, to);
  const recent = part(trailingRate(stats.curve, window));
  const cumulative = part(cumulativeRate(stats.curve).filter(isShown));
  const limit = stats.bound.verdict === "within" ? stats.bound.mistake_bound : null;
  const yMax = topOf([recent, cumulative], Math.min(rounds, to), limit);
  const series = [
    { name: `Last ${count(window)} rounds`, kind: "recent", points: recent },
    { name: "All rounds", kind: "cumulative", points: cumulative },
    {
      name: `Confidence band, ${wholePercent(stats.error_rate_interval?.confidence)} sure`,
      kind: "band",
      points: part(band(stats.curve, stats.error_rate_interval).filter(isShown)),
    },
    {
      name: "The most the bound allows",
      kind: "bound",
      points: boundRate(limit, Math.min(rounds, to), yMax, from),
    },
  ];
  return { series, yMax };
}
