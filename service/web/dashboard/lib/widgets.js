// Parts that several views and cards have: a notice in place of a view, a row of large figures, an area that scrolls.

import { h, setText } from "./dom.js";

/** Shown in place of a view when something was refused or does not exist. */
export function notice(title, text, ...actions) {
  return h(
    "div",
    { class: "notice" },
    h("h1", { tabindex: "-1" }, title),
    h("p", {}, text),
    h("p", { class: "actions" }, actions),
  );
}

/** A refusal of the service, with a way to try again. */
export function refusal(error) {
  const again = h(
    "button",
    { class: "primary", type: "button", onclick: () => location.reload() },
    "Try again",
  );
  if (error.status === 401)
    return notice("API key required", "This service requires an API key.", again);
  return notice("Request refused", error.message, again);
}

/** A row of large figures. */
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

/** An area that scrolls, with its name for screen readers; it can be reached by keyboard, and fades where there is more. */
export function scrollArea(name, className, ...children) {
  const inner = h("div", { class: "scroll-size" }, ...children);
  const area = h("div", { class: `scroll ${className}`.trim(), role: "group", tabindex: "0", "aria-label": name }, inner);
  const tell = () => {
    area.classList.toggle("more-left", area.scrollLeft > 1);
    area.classList.toggle("more-right", area.scrollLeft + area.clientWidth < area.scrollWidth - 1);
  };
  area.addEventListener("scroll", tell, { passive: true });
  const sizes = new ResizeObserver(tell);
  sizes.observe(area);
  sizes.observe(inner); // what is in it may grow while the area stays as it is
  return { element: area, fill: (...contents) => inner.replaceChildren(...contents) };
}
