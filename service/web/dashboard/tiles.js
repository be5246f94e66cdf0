// A row of large figures.

import { h, setText } from "./dom.js";

export class Tiles {
  #values = new Map();
  #notes = new Map();

  constructor(label, names) {
    this.element = h(
      "dl",
      { class: "tiles", "aria-label": label },
      names.map((name) => this.#tile(name)),
    );
  }

  #tile(name) {
    const value = h("dd", { class: "value" }, "–");
    const note = h("dd", { class: "note" });
    this.#values.set(name, value);
    this.#notes.set(name, note);
    return h("div", { class: "tile" }, h("dt", {}, name), value, note);
  }

  show(values, notes = []) {
    [...this.#values.values()].forEach((element, i) => setText(element, values[i]));
    [...this.#notes.values()].forEach((element, i) => setText(element, notes[i] ?? ""));
  }
}
