// Whether probabilities can be trusted: what was served against what came true, and what is to be expected of the rest.

import { card, h, s, setText, table } from "../lib/dom.js";
import { count, percent, plural, real, shortCount, wholePercent } from "../lib/format.js";

const LOSSES = [
  ["brier", "Brier score"],
  ["log_loss", "Log loss"],
];

/** The losses of always serving the share of right labels: what a probability has to beat. */
export function lossesOfTheMean({ rounds, bins }) {
  if (!rounds) return { brier: null, log_loss: null };
  const right = bins.reduce((sum, bin) => sum + bin.rounds * (bin.right_rate ?? 0), 0) / rounds;
  const part = (share) => (share > 0 ? -share * Math.log(share) : 0);
  return { brier: right * (1 - right), log_loss: part(right) + part(1 - right) };
}

/** What is to be expected of the pending predictions. */
export function unlabelledInWords({ predictions, expected_error_rate: expected }) {
  if (!predictions) return "No pending predictions.";
  const pending = plural(predictions, "pending prediction");
  if (expected === null) return `${pending}, served without a probability.`;
  return `${pending}, expected error ${percent(expected, 1)} by ${predictions === 1 ? "its probability" : "their probabilities"}.`;
}

export class ReliabilityCard {
  #diagram = new ReliabilityDiagram();
  #words = h("p", { class: "words" });
  #cells = new Map(LOSSES.map(([key]) => [key, [0, 1].map(() => h("td", { class: "number" }))]));
  #waiting = h("p", { class: "words" });
  #bins = h("tbody");
  element = card(
    "Calibration",
    "reliability",
    this.#diagram.element,
    h(
      "div",
      { class: "beside" },
      this.#words,
      table(
        "How far the probabilities were from the true labels",
        ["Loss", "#Model", "#Constant"],
        h(
          "tbody",
          {},
          LOSSES.map(([key, name]) => h("tr", {}, h("th", { scope: "row" }, name), this.#cells.get(key))),
        ),
      ),
      this.#waiting,
    ),
    h(
      "div",
      { class: "unseen" },
      table("Labels by the probability they were served with", ["Probability", "#Labels", "#Right"], this.#bins),
    ),
  );

  show({ calibration, unlabelled }) {
    this.#diagram.draw(calibration.bins);
    setText(this.#words, wordsFor(calibration.rounds));
    const means = lossesOfTheMean(calibration);
    for (const [key, [own, mean]] of this.#cells) {
      setText(own, real(calibration[key]));
      setText(mean, real(means[key]));
    }
    setText(this.#waiting, unlabelledInWords(unlabelled));
    this.#bins.replaceChildren(...calibration.bins.map(row));
  }
}

function wordsFor(rounds) {
  if (!rounds) return "No label that was served with a probability has been revealed yet.";
  return [
    `${plural(rounds, "label")} served with a probability have been revealed. Each dot is the share of them that was`,
    "right: in its box, if the probabilities can be trusted. The larger the dot, the more labels.",
    "The constant in the table is the share of right labels, served each time.",
  ].join(" ");
}

function row({ low, high, rounds, right_rate: right }) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, `${wholePercent(low)} to ${wholePercent(high)}`),
    h("td", {}, count(rounds)),
    h("td", {}, percent(right)),
  );
}

// Bins of served probabilities in SVG: boxes where their shares of right labels should be, dots where they are, and
// below how many labels there are in each.

const MARGIN = { left: 46, right: 14, top: 10, bottom: 42 };
const SIZES_HEIGHT = 42;
const RADIUS = { least: 3, most: 9 };
const COUNT_WIDTH_MIN = 30;

class ReliabilityDiagram {
  #plot = s("svg", { role: "img" });
  #bins = null;
  element = h("div", { class: "chart" }, this.#plot);

  constructor() {
    new ResizeObserver(() => this.#render()).observe(this.element);
  }

  /** `bins`: [{low, high, rounds, right_rate}], from 0 to 1. */
  draw(bins) {
    this.#bins = bins;
    this.#render();
  }

  #render() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height || !this.#bins) return;
    const place = places(width, height);
    const most = Math.max(1, ...this.#bins.map(({ rounds }) => rounds));
    this.#plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.#plot.setAttribute("aria-label", "Share of right labels by the probability they were served with");
    this.#plot.replaceChildren(
      axes(place),
      ...this.#bins.map((bin) => binAt(bin, most, place)),
    );
  }
}

function places(width, height) {
  const [left, right] = [MARGIN.left, width - MARGIN.right];
  const floor = height - MARGIN.bottom;
  const bottom = floor - SIZES_HEIGHT;
  return {
    left,
    right,
    bottom,
    floor,
    x: (share) => left + share * (right - left),
    y: (share) => bottom - share * (bottom - MARGIN.top),
  };
}

function axes({ left, right, bottom, floor, x, y }) {
  const group = s("g", { class: "axes" });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const at = y(share);
    group.append(
      s("line", { x1: left, x2: right, y1: at, y2: at, class: share ? "grid" : "base" }),
      s("text", { x: left - 8, y: at, dy: "0.32em", "text-anchor": "end" }, wholePercent(share)),
    );
  }
  for (const share of [0, 0.2, 0.4, 0.6, 0.8, 1])
    group.append(s("text", { x: x(share), y: floor + 16, "text-anchor": "middle" }, wholePercent(share)));
  group.append(
    s("line", { x1: left, x2: right, y1: floor, y2: floor, class: "base" }),
    s("text", { x: left - 8, y: floor - 6, "text-anchor": "end" }, "labels"),
    s("text", { x: x(0.5), y: floor + 34, "text-anchor": "middle" }, "Probability served"),
  );
  return group;
}

function binAt({ low, high, rounds, right_rate: right }, most, { x, y, floor }) {
  const [from, to] = [x(low) + 1, x(high) - 1];
  const middle = (from + to) / 2;
  const group = s("g", { class: "bin" });
  group.append(
    s("rect", { class: "target", x: from, width: to - from, y: y(high), height: y(low) - y(high), rx: 3 }),
  );
  if (!rounds) return group;
  const tall = Math.max(2, (rounds / most) * (SIZES_HEIGHT - 18));
  const shares = `${wholePercent(low)} to ${wholePercent(high)}`;
  group.prepend(
    s("title", {}, `Served with ${shares}: ${plural(rounds, "label")}, ${percent(right)} right`),
  );
  group.append(
    s("rect", { class: "size", x: from, width: to - from, y: floor - tall, height: tall }),
    s("line", { class: "stem", x1: middle, x2: middle, y1: y(right), y2: y(nearest(right, low, high)) }),
    s("circle", {
      cx: middle,
      cy: y(right),
      r: RADIUS.least + (RADIUS.most - RADIUS.least) * Math.sqrt(rounds / most),
    }),
  );
  if (to - from >= COUNT_WIDTH_MIN)
    group.append(
      s("text", { class: "count", x: middle, y: floor - tall - 4, "text-anchor": "middle" }, shortCount(rounds)),
    );
  return group;
}

/** The value between `low` and `high` that is nearest to `value`. */
function nearest(value, low, high) {
  return Math.max(low, Math.min(high, value));
}
