// Bins of served probabilities in SVG: boxes where their shares of right labels should be, dots where they are, and
// below how many labels there are in each.

import { h, s } from "./dom.js";
import { percent, plural, shortCount, wholePercent } from "./format.js";

const MARGIN = { left: 46, right: 14, top: 10, bottom: 42 };
const SIZES_HEIGHT = 42;
const RADIUS = { least: 3, most: 9 };
const COUNT_WIDTH_MIN = 30;

export class ReliabilityDiagram {
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
