// Which events of the trail are shown: of one kind, with one label.

import { h } from "./dom.js";
import { labelText } from "./format.js";

const ANY = "";

export class TrailFilter {
  #labels = [];
  #kind;
  #label = h("select", { "aria-label": "Label" });
  element;

  constructor(kinds, onChange) {
    this.#kind = h(
      "select",
      { "aria-label": "Kind", onchange: onChange },
      h("option", { value: ANY }, "All kinds"),
      kinds.map((kind) => h("option", { value: kind }, kind.replaceAll("_", " "))),
    );
    this.#label.addEventListener("change", onChange);
    this.#label.append(h("option", { value: ANY }, "Any label"));
    this.element = h("div", { class: "trail-filter" }, this.#kind, this.#label);
  }

  /** The labels to choose from. */
  offer(labels) {
    if (labels.length === this.#labels.length) return;
    for (const label of labels.slice(this.#labels.length))
      this.#label.append(h("option", { value: JSON.stringify(label) }, labelText(label)));
    if (labels.length < this.#labels.length) {
      // The model began anew.
      this.#label.replaceChildren(h("option", { value: ANY }, "Any label"));
      this.#labels = [];
      this.offer(labels);
    }
    this.#labels = labels;
  }

  /** The label that is sought; undefined if it may be any. */
  get label() {
    return this.#label.value === ANY ? undefined : JSON.parse(this.#label.value);
  }

  /** Whether an event is to be shown. */
  takes = (event) => {
    if (this.#kind.value !== ANY && event.kind !== this.#kind.value) return false;
    const { label } = this;
    return label === undefined || event.label === label || Boolean(event.labels?.includes(label));
  };
}
