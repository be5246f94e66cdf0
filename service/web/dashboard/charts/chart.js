// Line charts in SVG: scales, axes, lines, marks. They know nothing about learning.

import { h, s, setText } from "../lib/dom.js";
import { ChartCursor } from "./cursor.js";
import { ChartDrag } from "./drag.js";

const MARGIN = { left: 46, right: 14, top: 14, bottom: 26 };
const MARK_ROWS = 3;
const MARK_ROW_HEIGHT = 14;
const MARK_CHAR_WIDTH = 6.5;
const MARK_CHARS_MAX = 32;

/** How far apart round numbers are of which about `about` fit into a range; not less than `least`. */
export function stepOf(range, about = 4, least = 0) {
  const raw = Math.max(range / about, least);
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999 && size >= least);
}

/** Round numbers from `min` to at most `max`, so far apart. */
export function ticks(max, step, min = 0) {
  const marks = [];
  const most = max + (max - min) * 0.0001;
  for (let i = Math.ceil(min / step); i * step <= most; i += 1) marks.push(i * step);
  return marks;
}

/** An SVG path through points that are already in pixels. */
export function path(points) {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

/** A chart that fills its place. `draw` takes:
 * xMin (0 if it is not given), xMax, yMax; series: [{name, kind, points: [[x, y]]}], where points of the kind "band" are [x, low, high]; marks: [{x, text, title}];
 * formatX, formatY: texts for ticks, by their value and how far apart they are, such that the text is the value;
 * leastX, leastY: how far apart they are at least; formatValue: {x, y}; nameX; title, text.
 * silence: how far apart two points are between which no line goes; however far, if it is not given.
 * ticks(from, to, about): {values, step} of an axis whose ticks are not round numbers.
 * `onSelect(from, to)`, if there is one, gets the part that somebody has dragged over. */
export class Chart {
  #plot = s("svg", { role: "img" });
  #tip = h("div", { class: "tip", role: "status", hidden: true });
  #drawn = null;
  #cursor;
  #drag = null;

  constructor(onSelect = null) {
    this.element = h("div", { class: "chart", role: "group", tabindex: "0" }, this.#plot, this.#tip);
    this.#cursor = new ChartCursor(this.element, this.#tip);
    if (onSelect) this.#drag = new ChartDrag(this.element, onSelect);
    new ResizeObserver(() => this.#render()).observe(this.element);
  }

  draw(spec) {
    this.#drawn = spec;
    this.#render();
  }

  #render() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (!width || !height || !this.#drawn) return;
    const spec = this.#drawn;
    const scale = scales(spec, width, height);
    this.#plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.element.setAttribute("aria-label", `${spec.title}; left and right arrow keys read values`);
    this.#plot.setAttribute("aria-label", `${spec.title}. ${spec.text}`);
    this.#plot.replaceChildren(
      s("title", {}, spec.title),
      s("desc", {}, spec.text),
      axes(spec, scale),
      lines(spec, scale),
      ...marksAt(spec.marks ?? [], scale),
      this.#drag?.layer(scale) ?? s("g"),
      this.#cursor.layer(spec, scale),
    );
  }
}

function scales(spec, width, height) {
  const { left, right, top, bottom } = MARGIN;
  const inner = { left, top, right: width - right, bottom: height - bottom };
  const xMin = spec.xMin ?? 0;
  const span = spec.xMax - xMin || 1;
  return {
    inner,
    x: (value) => left + ((value - xMin) / span) * (inner.right - left),
    y: (value) => inner.bottom - (value / (spec.yMax || 1)) * (inner.bottom - top),
    xAt: (pixel) => xMin + ((pixel - left) / (inner.right - left)) * span,
  };
}

function axes(spec, { inner, x, y }) {
  const group = s("g", { class: "axes" });
  const stepY = stepOf(spec.yMax, Math.max(2, Math.floor((inner.bottom - inner.top) / 36)), spec.leastY);
  for (const value of ticks(spec.yMax, stepY)) {
    group.append(
      s("line", {
        x1: inner.left,
        x2: inner.right,
        y1: y(value),
        y2: y(value),
        class: value ? "grid" : "base",
      }),
      s("text", { x: inner.left - 8, y: y(value), dy: "0.32em", "text-anchor": "end" }, spec.formatY(value, stepY)),
    );
  }
  const { values, step } = ticksX(spec, Math.max(2, Math.floor((inner.right - inner.left) / 110)));
  for (const value of values) {
    const anchor = value === 0 ? "start" : x(value) > inner.right - 24 ? "end" : "middle";
    group.append(s("text", { x: x(value), y: inner.bottom + 18, "text-anchor": anchor }, spec.formatX(value, step)));
  }
  return group;
}

function ticksX({ xMin = 0, xMax, leastX, ticks: ownTicks }, about) {
  if (ownTicks) return ownTicks(xMin, xMax, about);
  const step = stepOf(xMax - xMin, about, leastX);
  return { values: ticks(xMax, step, xMin), step };
}

/** What is above the top, or beside the part that is shown, is cut off there. */
function lines({ series, silence = Infinity }, scale) {
  const { left, top, right, bottom } = scale.inner;
  const [width, height] = [right - left + 1, bottom - top + 2];
  const window = { x: left, y: top, width, height, viewBox: `${left} ${top} ${width} ${height}` };
  return s(
    "svg",
    window,
    series.map((each) => line(each, scale, silence)),
  );
}

function line({ kind, points }, { x, y, inner }, silence) {
  if (!points.length) return s("g");
  const parts = partsOf(points, silence);
  const group = s("g", { class: `series ${kind}` });
  if (kind === "band") {
    const around = parts.map((part) => {
      const below = part.map(([px, low]) => [x(px), y(low)]);
      const above = part.map(([px, , high]) => [x(px), y(high)]);
      return `${path([...above, ...below.reverse()])}Z`;
    });
    group.append(s("path", { class: "area", d: around.join("") }));
    return group;
  }
  const placed = parts.map((part) => part.map(([px, py]) => [x(px), y(py)]));
  const drawn = placed.map((part) => (part.length > 1 || parts.length === 1 ? path(part) : path([...part, ...part]))); // one point is a dot
  if (kind === "recent" || kind === "mistakes") {
    const down = placed.map((part, i) => `${drawn[i]}L${part.at(-1)[0]} ${inner.bottom}L${part[0][0]} ${inner.bottom}Z`);
    group.append(s("path", { class: "area", d: down.join("") }));
  }
  group.append(s("path", { class: "line", d: drawn.join("") }));
  return group;
}

/** Points in parts, which end where the next point is further away than `silence`. */
function partsOf(points, silence) {
  const parts = [[points[0]]];
  for (let i = 1; i < points.length; i += 1) {
    if (points[i][0] - points[i - 1][0] > silence) parts.push([]);
    parts.at(-1).push(points[i]);
  }
  return parts;
}

/** Each mark has its line; its text in the first row where it covers no other, and where none is free only as a title. */
function marksAt(marks, scale) {
  const { left, right } = scale.inner;
  const rows = Array.from({ length: MARK_ROWS }, () => []);
  const texts = s("g", { class: "mark-texts", "aria-hidden": "true" });
  const groups = marks.toReversed().map((mark) => {
    const at = scale.x(mark.x);
    const isLate = at > (left + right) / 2;
    const text = mark.text.length > MARK_CHARS_MAX ? `${mark.text.slice(0, MARK_CHARS_MAX - 1)}…` : mark.text;
    const width = text.length * MARK_CHAR_WIDTH + 12;
    const [from, to] = isLate ? [at - width, at] : [at, at + width];
    const row = rows.findIndex((taken) => taken.every(([first, last]) => to < first || from > last));
    rows[row]?.push([from, to]);
    if (row >= 0) texts.append(markText({ at, isLate, row, text }, scale.inner));
    return markLine(at, mark.title ?? mark.text, scale.inner);
  });
  return [...groups, texts]; // no line goes through a text
}

function markLine(at, title, { top, bottom }) {
  return s("g", { class: "mark" }, s("title", {}, title), s("line", { x1: at, x2: at, y1: top, y2: bottom }));
}

function markText({ at, isLate, row, text }, { top }) {
  const y = top + 4 + row * MARK_ROW_HEIGHT;
  return s("text", { x: at + (isLate ? -6 : 6), y, dy: "0.32em", "text-anchor": isLate ? "end" : "start" }, text);
}

/** A small line without axes, for a row of a table. */
export function sparkline(points, { width = 112, height = 26, yMax }) {
  const xMin = points[0]?.[0] ?? 0;
  const span = (points.at(-1)?.[0] ?? 0) - xMin || 1;
  const placed = points.map(([x, y]) => [
    1 + ((x - xMin) / span) * (width - 5),
    height - 2 - Math.min(1, y / (yMax || 1)) * (height - 5),
  ]);
  const drawing = s("svg", {
    class: "sparkline",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    "aria-hidden": "true",
  });
  if (placed.length < 2) return drawing;
  const [lastX, lastY] = placed.at(-1);
  drawing.append(s("path", { d: path(placed) }), s("circle", { cx: lastX, cy: lastY, r: 2 }));
  return drawing;
}

/** The names of lines beside their colours. Update by calling again: texts change, elements stay. */
export class Legend {
  element = h("ul", { class: "legend" });

  show(series) {
    const shown = series.filter(({ points }) => points.length);
    while (this.element.children.length > shown.length) this.element.lastChild.remove();
    shown.forEach(({ name, kind }, i) => {
      const item = this.element.children[i] ?? this.element.appendChild(h("li"));
      item.className = kind;
      setText(item, name);
    });
  }
}
