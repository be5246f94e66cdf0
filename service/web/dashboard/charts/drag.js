// Choosing a part of a chart by dragging over it with a mouse or a pen. A finger reads values there; for it there are buttons.

import { s } from "../lib/dom.js";

const LEAST_PIXELS = 6;

export class ChartDrag {
  #host;
  #onSelect;
  #scale = null;
  #began = null; // what the pointer was over when it went down: a value, since the chart may move on meanwhile
  #at = null;
  #area = s("rect", { class: "chosen", visibility: "hidden" });

  /** `onSelect(from, to)` gets the values at both ends. */
  constructor(host, onSelect) {
    this.#host = host;
    this.#onSelect = onSelect;
    host.addEventListener("pointerdown", (event) => this.#begin(event));
    host.addEventListener("pointermove", (event) => this.#move(event));
    host.addEventListener("pointerup", () => this.#end());
    host.addEventListener("pointercancel", () => this.#cancel());
    host.addEventListener("keydown", (event) => event.key === "Escape" && this.#cancel());
  }

  /** The layer for a chart that has just been drawn. */
  layer(scale) {
    this.#scale = scale;
    this.#show();
    return this.#area;
  }

  #begin(event) {
    if (!this.#scale || event.button !== 0 || event.pointerType === "touch") return;
    this.#began = this.#scale.xAt(this.#pixel(event));
    this.#host.setPointerCapture(event.pointerId);
  }

  #move(event) {
    if (this.#began === null) return;
    this.#at = this.#pixel(event);
    this.#show();
  }

  #end() {
    const isChosen = this.#isWide();
    const ends = isChosen ? [this.#began, this.#scale.xAt(this.#at)].sort((a, b) => a - b) : null;
    this.#cancel();
    if (ends) this.#onSelect(...ends);
  }

  #cancel() {
    this.#began = this.#at = null;
    this.#show();
  }

  /** Where the pointer is, within the lines' place. */
  #pixel(event) {
    const { left, right } = this.#scale.inner;
    return Math.max(left, Math.min(right, event.clientX - this.#host.getBoundingClientRect().left));
  }

  #isWide() {
    return this.#at !== null && Math.abs(this.#scale.x(this.#began) - this.#at) >= LEAST_PIXELS;
  }

  #show() {
    const isShown = this.#began !== null && this.#isWide();
    this.#area.setAttribute("visibility", isShown ? "visible" : "hidden");
    if (!isShown) return;
    const { inner, x } = this.#scale;
    const from = x(this.#began);
    const place = { x: Math.min(from, this.#at), y: inner.top, width: Math.abs(from - this.#at), height: inner.bottom - inner.top };
    for (const [name, value] of Object.entries(place)) this.#area.setAttribute(name, value);
  }
}
