// Try it: type features, see what the model says. Teaching it what was true is a step of its own.

import { WeightBars } from "../charts/weight_bars.js";
import { postJson } from "../lib/api.js";
import { card, h } from "../lib/dom.js";
import { exampleFor, parseFeatures, parseLabel } from "../lib/features.js";
import { labelText, plural, signed } from "../lib/format.js";
import { sayFailure } from "../lib/live.js";
import { certaintyInWords } from "./certainty.js";
import { loadWeights, moves } from "./weights.js";

const BUTTONS_MAX = 12;
const NAMED_MAX = 1000;
const TERMS = 6;
// Enough of the weights to see what moved, without reading all of a large model.
const READ_MAX = 1000;
const READ_MAX_OF_MANY = 50;
const MANY_CLASSES = 20;

export class TryCard {
  #name;
  #weights;
  #settings;
  #labels = [];
  #features = h("textarea", {
    id: "features",
    rows: "2",
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": "features-help",
    placeholder: "1.0, 2.5",
    onkeydown: (event) => this.#press(event),
    oninput: () => this.#clear(),
  });
  #example = h(
    "button",
    { type: "button", class: "quiet", onclick: () => this.#fillIn() },
    "Fill in an example",
  );
  #error = h("p", { class: "error", role: "alert" });
  #answer = h("div", { class: "answer", "aria-live": "polite" });
  element;

  constructor(name, weights, settings) {
    this.#name = name;
    this.#weights = weights;
    this.#settings = settings;
    const form = h(
      "form",
      { onsubmit: (event) => this.#predict(event) },
      h("label", { for: "features" }, "Features"),
      this.#features,
      h(
        "p",
        { id: "features-help", class: "help" },
        "Comma-separated numbers, names with values such as free=1, or JSON.",
      ),
      h(
        "div",
        { class: "actions" },
        h("button", { class: "primary", type: "submit" }, "Predict"),
        this.#example,
      ),
      this.#error,
    );
    this.element = card("Try it", "half try", form, this.#answer);
  }

  show({ confusion }) {
    this.#labels = confusion.labels;
  }

  #press(event) {
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    this.#features.form.requestSubmit();
  }

  #fillIn() {
    const weights = this.#weights.current?.classes[0]?.weights ?? [];
    if (this.#settings.value) this.#features.value = exampleFor(this.#settings.value, weights);
    this.#clear();
    this.#features.focus();
  }

  /** An answer is about the features in the field: once these are others, nothing may be taught by it. */
  #clear() {
    this.#error.textContent = "";
    this.#answer.replaceChildren();
  }

  async #predict(event) {
    event.preventDefault();
    const asked = this.#features.value;
    await this.#attempt(async () => {
      const features = parseFeatures(asked);
      const made = await postJson("predict", { model: this.#name, features, explain: TERMS, dry: true });
      if (asked !== this.#features.value) return; // edited while the answer was on its way
      this.#answer.replaceChildren(
        h(
          "p",
          { class: "says" },
          "The model says ",
          h("strong", {}, labelText(made.label)),
          ` with a score of ${signed(made.score)}.`,
        ),
        ...certaintyInWords(made).map((words) => h("p", { class: "words" }, words)),
        ...this.#explanation(made.explanation ?? []),
        this.#teaching(features),
      );
    });
    if (this.#error.textContent) this.#answer.replaceChildren();
  }

  /** Nothing is learned before the person asks for it. */
  #teaching(features) {
    const begin = () => {
      const labels = this.#labelsFor(features);
      place.replaceChildren(
        h("p", { class: "ask" }, "What is the true label?"),
        h("p", { class: "help" }, "The model learns it as a round, and counts it."),
        labels,
      );
      labels.querySelector("button, input")?.focus({ preventScroll: true });
    };
    const place = h(
      "div",
      { class: "teach" },
      h("p", { class: "help" }, "A dry run: no prediction is stored, and nothing was learned."),
      h("button", { type: "button", onclick: begin }, "Teach it this example"),
    );
    return place;
  }

  #explanation(terms) {
    if (!terms.length) return [];
    const bars = new WeightBars("Composition of the score", "Weight × value");
    // The service calls the bias "bias", as a feature may be called too.
    const named = (feature) => (feature === "bias" ? null : feature);
    bars.show(
      terms.map(({ feature, contribution }, key) => ({ key, feature: named(feature), weight: contribution })),
    );
    return [h("p", { class: "help" }, "Sum of weight × value:"), bars.element];
  }

  #labelsFor(features) {
    const teach = (label) => this.#teach(features, label);
    const buttons = this.#labels
      .slice(0, BUTTONS_MAX)
      .map((label) =>
        h(
          "button",
          { type: "button", title: String(label), onclick: () => teach(label) },
          h("span", { class: "label" }, labelText(label)),
        ),
      );
    const isOpen = this.#settings.value?.settings.labels === null || this.#labels.length > BUTTONS_MAX;
    return h(
      "div",
      { class: "reveals", role: "group", "aria-label": "True label" },
      buttons,
      isOpen ? this.#other(teach) : null,
    );
  }

  #other(teach) {
    const words = this.#labels.length ? "Find a label" : "Type a label";
    const names = h(
      "datalist",
      { id: "try-labels" },
      this.#labels.slice(0, NAMED_MAX).map((label) => h("option", { value: String(label) })),
    );
    const input = h("input", {
      type: "text",
      list: "try-labels",
      placeholder: words,
      "aria-label": words,
      maxlength: "256",
      autocomplete: "off",
    });
    const send = (event) => {
      event.preventDefault();
      if (input.value.trim()) teach(parseLabel(input.value, this.#labels));
    };
    const button = h("button", { type: "submit" }, "Teach");
    return h("form", { class: "other", onsubmit: send }, input, names, button);
  }

  async #teach(features, label) {
    await this.#attempt(async () => {
      const most = this.#labels.length > MANY_CLASSES ? READ_MAX_OF_MANY : READ_MAX;
      const before = await loadWeights(this.#name, most);
      const outcome = await postJson("learn", { model: this.#name, features, label });
      const after = await loadWeights(this.#name, most);
      const moved = outcome.updated ? moves(before, after, TERMS) : [];
      this.#weights.load(); // a user who teaches wants to see it, also of a model that is read seldom
      this.#answer.replaceChildren(
        h(
          "p",
          { class: outcome.mistake ? "says wrong" : "says" },
          h("strong", {}, outcome.mistake ? "A mistake. " : "Right. "),
          this.#outcome(outcome),
        ),
        ...this.#moved(moved, after),
      );
      this.#features.focus({ preventScroll: true });
    });
  }

  #outcome({ updated, label, rounds, mistakes }) {
    const did = updated ? "The weights moved" : "The weights stay as they are";
    return `${labelText(label)} was true. ${did}: ${plural(mistakes, "mistake")} in ${plural(rounds, "round")}.`;
  }

  #moved(items, after) {
    if (!items.length) return [];
    const bars = new WeightBars("Weights before and after", "Before and after");
    const isMany = after.classes.length > 1;
    const rows = items.map((item) => ({
      ...item,
      key: `${item.label} ${typeof item.feature} ${item.feature}`,
      note: isMany ? `for ${labelText(item.label)}` : null,
    }));
    bars.show(rows.map((item) => ({ ...item, weight: item.before })));
    // The second drawing is what moves; the browser must have seen the first.
    requestAnimationFrame(() => requestAnimationFrame(() => bars.show(rows)));
    return [bars.element];
  }

  async #attempt(work) {
    this.#error.textContent = "";
    try {
      await work();
    } catch (error) {
      sayFailure(this.#error, error);
    }
  }
}
