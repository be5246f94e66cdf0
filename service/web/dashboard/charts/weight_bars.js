// Bars to the left and right of zero, one a feature; where each was before is shown behind it.

import { h, setText } from "../lib/dom.js";
import { decimalsFor, featureText, signed } from "../lib/format.js";

export class WeightBars {
  #body = h("tbody");
  #rows = new Map();

  constructor(caption, valueName = "Weight") {
    this.element = h(
      "table",
      { class: "weights" },
      h("caption", { class: "unseen" }, caption),
      h("colgroup", {}, h("col", { class: "feature" }), h("col"), h("col", { class: "value" })),
      h(
        "thead",
        { class: "unseen" },
        h(
          "tr",
          {},
          ["Feature", "Bar", valueName].map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      this.#body,
    );
  }

  /** items: [{key, feature, weight, before?, note?}], in the order of the rows. */
  show(items) {
    const most = Math.max(
      ...items.flatMap(({ weight, before = 0 }) => [Math.abs(weight), Math.abs(before)]),
      1e-300,
    );
    const rows = new Map(items.map((item) => [item.key, this.#rows.get(item.key) ?? new Bar(item)]));
    const isSame =
      rows.size === this.#rows.size && [...rows.keys()].every((key, i) => key === [...this.#rows.keys()][i]);
    if (!isSame) this.#body.replaceChildren(...[...rows.values()].map((row) => row.element));
    this.#rows = rows;
    const decimals = decimalsFor(most);
    for (const item of items) rows.get(item.key).show(item, most, decimals);
  }
}

class Bar {
  #bar = h("span", { class: "bar" });
  #ghost = h("span", { class: "ghost" });
  #value = h("td", { class: "number" });
  element;

  constructor({ feature, note }) {
    const text = featureText(feature);
    this.element = h(
      "tr",
      {},
      h(
        "th",
        { scope: "row", title: text },
        h("span", { class: "label" }, text),
        note ? h("span", { class: "note" }, note) : null,
      ),
      h("td", { class: "track" }, h("div", { class: "zero", "aria-hidden": "true" }, this.#ghost, this.#bar)),
      this.#value,
    );
  }

  show({ weight, before }, most, decimals) {
    place(this.#bar, weight, most);
    place(this.#ghost, before ?? weight, most);
    setText(
      this.#value,
      before === undefined
        ? signed(weight, decimals)
        : `${signed(before, decimals)} → ${signed(weight, decimals)}`,
    );
  }
}

function place(element, weight, most) {
  const half = (50 * Math.abs(weight)) / most;
  element.style.left = `${weight < 0 ? 50 - half : 50}%`;
  element.style.width = `${half}%`;
  element.classList.toggle("negative", weight < 0);
}
