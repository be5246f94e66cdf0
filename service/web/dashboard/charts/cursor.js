// Reading a chart at one place: by pointer, or by arrow keys.

import { h, s } from "../lib/dom.js";

const NEAR_PARTS = 40;
const KEYS = { ArrowLeft: -1, ArrowRight: 1 };

export class ChartCursor {
  #host;
  #tip;
  #spec = null;
  #scale = null;
  #at = null;
  #group = s("g", { class: "cursor" });

  constructor(host, tip) {
    this.#host = host;
    this.#tip = tip;
    host.addEventListener("pointermove", (event) => this.#point(event));
    host.addEventListener("pointerleave", () => this.#move(null));
    host.addEventListener("blur", () => this.#move(null));
    host.addEventListener("keydown", (event) => this.#press(event));
  }

  /** The layer for a chart that has just been drawn; the cursor stays where it was. */
  layer(spec, scale) {
    this.#spec = spec;
    this.#scale = scale;
    this.#show();
    return this.#group;
  }

  #point(event) {
    if (!this.#scale) return;
    this.#move(this.#scale.xAt(event.clientX - this.#host.getBoundingClientRect().left));
  }

  #press(event) {
    if (event.key === "Escape") this.#move(null);
    if (!(event.key in KEYS) || !this.#spec) return;
    event.preventDefault();
    const step = (this.#spec.xMax - this.#least) / NEAR_PARTS;
    this.#move(this.#at === null ? this.#spec.xMax : this.#at + KEYS[event.key] * step);
  }

  get #least() {
    return this.#spec?.xMin ?? 0;
  }

  #move(at) {
    this.#at = at === null ? null : Math.max(this.#least, Math.min(this.#spec?.xMax ?? 0, at));
    this.#show();
  }

  #show() {
    this.#group.replaceChildren();
    this.#tip.replaceChildren();
    this.#tip.hidden = this.#at === null;
    if (this.#at === null || !this.#spec) return;
    const { series, formatValue, nameX } = this.#spec;
    const { x, y, inner } = this.#scale;
    const isSeen = ([at]) => at >= this.#least && at <= this.#spec.xMax;
    const found = this.#there(series)
      .map((each) => ({ ...each, point: nearest(each.points.filter(isSeen), this.#at) }))
      .filter((f) => f.point);
    const round = found[0]?.point[0];
    if (round === undefined) return;
    const place = x(round);
    this.#group.append(s("line", { x1: place, x2: place, y1: inner.top, y2: inner.bottom }));
    this.#tip.append(h("strong", {}, `${nameX} ${formatValue.x(round)}`.trim()));
    for (const { kind, name, point } of found) {
      const [at, ...values] = point;
      if (kind !== "band")
        this.#group.append(s("circle", { class: kind, cx: x(at), cy: y(values[0]), r: 3.5 }));
      const text = values.map((value) => formatValue.y(value)).join(" to ");
      this.#tip.append(h("span", { class: `key ${kind}` }, name), h("span", {}, text));
    }
    const isRight = place > (inner.left + inner.right) / 2;
    this.#tip.style.left = isRight ? "" : `${place + 12}px`;
    this.#tip.style.right = isRight ? `${this.#host.clientWidth - place + 12}px` : "";
  }

  /** The lines that go to the place or nearly; all, if none does. One that begins later or has ended has no value there. */
  #there(series) {
    const near = (this.#spec.xMax - this.#least) / NEAR_PARTS;
    const found = series.filter(
      ({ points }) => points.length && points[0][0] - near <= this.#at && this.#at <= points.at(-1)[0] + near,
    );
    return found.length ? found : series;
  }
}

function nearest(points, at) {
  let best = null;
  for (const point of points) {
    if (best === null || Math.abs(point[0] - at) < Math.abs(best[0] - at)) best = point;
  }
  return best;
}
