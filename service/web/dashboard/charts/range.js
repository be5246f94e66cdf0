// Which part of a chart is shown: all, or what was chosen. It is in the link, so that others see the same.

import { ask, askedIn } from "../lib/address.js";
import { h, setText } from "../lib/dom.js";

/** Buttons for a part of a chart. An axis says how its values are written: see axes.js. */
export class ChartRange {
  #onChange;
  #axis = null;
  #whole = null;
  #shown = null;
  #from = null; // null: as far as there is anything, also what is still to come
  #to = null;
  #words = h("p", { class: "help", role: "status" });
  #in = this.#button("Zoom in", "+", () => this.#scale(0.5));
  #out = this.#button("Zoom out", "−", () => this.#scale(2));
  #earlier = this.#button("Earlier", "←", () => this.#shift(-0.5));
  #later = this.#button("Later", "→", () => this.#shift(0.5));
  #all = h("button", { type: "button", onclick: () => this.#go(-Infinity, Infinity) }, "Show all");
  element = h(
    "div",
    { class: "chart-range", role: "group", "aria-label": "Part of the chart" },
    this.#out,
    this.#in,
    this.#earlier,
    this.#later,
    this.#all,
    this.#words,
  );

  constructor(onChange) {
    this.#onChange = onChange;
  }

  /** Take what the link says, if this is another axis. */
  follow(axis) {
    if (axis === this.#axis) return;
    const asked = askedIn(location.hash);
    this.#axis = axis;
    [this.#from, this.#to] = ["from", "to"].map((end) => axis.parse(asked.get(end) ?? ""));
  }

  /** {from, to} of the part that is shown, of a chart that has values from `first` to `last`; no part is less wide than
   * `least`. Where nothing of the chart is in the part that was chosen, it is all. */
  of(first, last, least) {
    this.#whole = { first, last, least: Math.min(least, last - first) };
    this.#shown = this.#placed(this.#from ?? first, this.#to ?? last);
    this.#draw();
    return this.#shown;
  }

  /** Show this part. */
  choose(from, to) {
    this.#go(from, to);
  }

  #placed(from, to) {
    const { first, last, least } = this.#whole;
    if (!(from < to) || from >= last || to <= first) return { from: first, to: last };
    const middle = (Math.max(from, first) + Math.min(to, last)) / 2;
    const half = Math.max((Math.min(to, last) - Math.max(from, first)) / 2, least / 2);
    const start = Math.max(first, Math.min(middle - half, last - 2 * half));
    return { from: start, to: Math.min(last, start + 2 * half) };
  }

  #scale(factor) {
    const { from, to } = this.#shown;
    const half = ((to - from) * factor) / 2;
    this.#go((from + to) / 2 - half, (from + to) / 2 + half);
  }

  #shift(share) {
    const { first, last } = this.#whole;
    const { from, to } = this.#shown;
    const by = Math.max(first - from, Math.min(last - to, share * (to - from)));
    this.#go(from + by, to + by);
  }

  /** An end that is at the chart's is none, so that the chart grows with what comes. */
  #go(from, to) {
    const { first, last } = this.#whole;
    const placed = this.#placed(Math.max(first, this.#axis.round(from)), Math.min(last, this.#axis.round(to)));
    this.#from = placed.from <= first ? null : this.#axis.round(placed.from);
    this.#to = placed.to >= last ? null : this.#axis.round(placed.to);
    ask({ from: this.#from && this.#axis.write(this.#from), to: this.#to && this.#axis.write(this.#to) });
    const active = document.activeElement;
    this.#onChange();
    if (active?.disabled) (this.#in.disabled ? this.#out : this.#in).focus();
  }

  #draw() {
    const { first, last, least } = this.#whole;
    const { from, to } = this.#shown;
    const isAll = from <= first && to >= last;
    this.#in.disabled = to - from <= least;
    this.#out.disabled = this.#all.disabled = isAll;
    this.#earlier.disabled = from <= first;
    this.#later.disabled = to >= last;
    setText(this.#words, this.#axis.inWords({ from, to, isAll }));
  }

  #button(name, sign, onclick) {
    return h("button", { type: "button", class: "sign", "aria-label": name, title: name, onclick }, sign);
  }
}
