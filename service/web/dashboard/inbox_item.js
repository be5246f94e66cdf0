// One prediction of the inbox: its features, what was served, and a button for each label.

import { h, setText } from "./dom.js";
import { parseLabel } from "./features.js";
import { ago, count, dateTime, featureText, labelText, percent, real, signed } from "./format.js";
import { mayNow } from "./role.js";

const KEYS = 9;
const BUTTONS_MAX = 24;
const FEATURES_MAX = 60;
const NAMED_MAX = 1000;

export class InboxItem {
  #does;
  #shown = null;
  #shape = null;
  #labels = [];
  #served = h("p", { class: "inbox-served" });
  #when = h("p", { class: "help" });
  #features = h("dl", { class: "inbox-features", tabindex: "0", "aria-label": "Features" });
  #more = h("p", { class: "help" });
  #buttons = h("div", { class: "reveals", role: "group", "aria-label": "True label", "data-needs": "write" });
  element;

  /** `does` has `reveal(label)`, `skip()` and `drop()`. */
  constructor(does) {
    this.#does = does;
    const skip = h("button", { type: "button", class: "quiet", onclick: () => does.skip() }, "Skip ", key("S"));
    const drop = h(
      "button",
      { type: "button", class: "quiet", "data-needs": "write", title: "It was never shown to anybody", onclick: () => does.drop() },
      "Does not count",
    );
    this.element = h(
      "section",
      { class: "card inbox-item", "aria-label": "A prediction that waits" },
      this.#served,
      this.#when,
      this.#features,
      this.#more,
      h("p", { class: "ask", "data-needs": "write" }, "What was it really?"),
      h("p", { class: "help", "data-lacks": "write" }, "The key that you use may look at what waits, but not reveal labels."),
      this.#buttons,
      h("div", { class: "actions" }, skip, drop),
    );
  }

  /** Whether a key meant something. */
  press(pressed) {
    if (pressed.toLowerCase() === "s") {
      this.#does.skip();
      return true;
    }
    const label = mayNow("write") && /^[1-9]$/.test(pressed) ? this.#labels[Number(pressed) - 1] : undefined;
    if (label === undefined) return false;
    this.#does.reveal(label);
    return true;
  }

  show(prediction, labels, isOpenSet) {
    this.#build(labels, isOpenSet);
    const { at, probability, score, ask } = prediction;
    const asked = ask ? "Its label is asked for. " : "";
    setText(this.#when, `${asked}Served ${ago(at)}.`);
    this.#when.title = dateTime(at);
    if (this.#shown === prediction.prediction_id) return;
    this.#shown = prediction.prediction_id;
    const sure =
      probability === null ? "" : `, right with a probability of ${percent(probability, 1)} by its own estimate`;
    this.#served.replaceChildren(
      "The model said ",
      h("strong", {}, labelText(prediction.served)),
      `${sure} (score ${signed(score)}).`,
    );
    this.#showFeatures(prediction.features);
  }

  #showFeatures(features) {
    const all = Array.isArray(features)
      ? features.map((value, at) => [featureText(at), value])
      : Object.entries(features);
    const shown = all.slice(0, FEATURES_MAX).map(([name, value]) =>
      h("div", {}, h("dt", { title: name }, name), h("dd", {}, real(value))),
    );
    this.#features.replaceChildren(...shown);
    this.#features.scrollTop = 0;
    const more = all.length - shown.length;
    setText(this.#more, more > 0 ? `and ${count(more)} more` : "");
  }

  /** The buttons stay while the labels do: one that is replaced loses clicks and focus. */
  #build(labels, isOpenSet) {
    const shape = JSON.stringify([labels, isOpenSet]);
    if (shape === this.#shape) return;
    this.#shape = shape;
    this.#labels = labels.slice(0, BUTTONS_MAX);
    const buttons = this.#labels.map((label, at) =>
      h(
        "button",
        { type: "button", title: String(label), onclick: () => this.#does.reveal(label) },
        h("span", { class: "label" }, labelText(label)),
        at < KEYS ? key(String(at + 1)) : null,
      ),
    );
    const needsTyping = isOpenSet || labels.length > BUTTONS_MAX;
    this.#buttons.replaceChildren(...buttons, ...(needsTyping ? [this.#typed(labels)] : []));
  }

  #typed(labels) {
    const words = labels.length ? "Find a label" : "Type a label";
    const input = h("input", {
      type: "text",
      list: "inbox-labels",
      placeholder: words,
      "aria-label": words,
      maxlength: "256",
      autocomplete: "off",
    });
    const names = h(
      "datalist",
      { id: "inbox-labels" },
      labels.slice(0, NAMED_MAX).map((label) => h("option", { value: String(label) })),
    );
    const send = (event) => {
      event.preventDefault();
      if (!input.value.trim()) return;
      this.#does.reveal(parseLabel(input.value, labels));
      input.value = "";
    };
    const button = h("button", { type: "submit" }, "Reveal");
    return h("form", { class: "other", onsubmit: send }, input, names, button);
  }
}

function key(name) {
  return h("kbd", { "aria-hidden": "true" }, name);
}
