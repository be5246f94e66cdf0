// One prediction of the inbox: its features, what was served, and a button for each label, which keeps its place.

import { h, setText } from "../lib/dom.js";
import { parseLabel } from "../lib/features.js";
import { ago, count, dateTime, featureText, labelText, percent, real, signed } from "../lib/format.js";
import { mayNow } from "../lib/role.js";

const BUTTONS_MAX = 24;
const FEATURES_MAX = 60;
const NAMED_MAX = 1000;

export class InboxItem {
  #does;
  #shown = null;
  #shape = null;
  #isGone = false;
  #order = new LabelOrder();
  #offered = [];
  #servedLabel = null;
  #served = h("p", { class: "inbox-served" });
  #when = h("p", { class: "help" });
  #given = h("p", { class: "inbox-given", role: "status", hidden: true });
  #features = h("dl", { class: "inbox-features", tabindex: "0", "aria-label": "Features" });
  #more = h("p", { class: "help" });
  #gone = h(
    "p",
    { class: "inbox-gone", role: "status", hidden: true },
    h("span", {}, "Labelled elsewhere, or expired. Any key goes on. "),
    h("button", { type: "button", class: "primary", onclick: () => this.#does.goOn() }, "Next"),
  );
  #buttons = h("div", { class: "reveals", role: "group", "aria-label": "True label", "data-needs": "write" });
  #confirm = h("span", { class: "help" }, " ", key("Enter"), " confirms the served label.");
  #back;
  element;

  /** `does` has `reveal(label)`, `skip()`, `back()` and `drop()`, for one that waits; and `goOn()`, from one that is gone. */
  constructor(does) {
    this.#does = does;
    const skip = h("button", { type: "button", class: "quiet", onclick: this.#do("skip") }, "Skip ", key("S"));
    this.#back = h("button", { type: "button", class: "quiet", onclick: this.#do("back") }, "Previous ", key("P"));
    const drop = h(
      "button",
      { type: "button", class: "quiet", "data-needs": "write", title: "It was never shown, or has no true label", onclick: this.#do("drop") },
      "Discard ",
      key("V"),
    );
    this.element = h(
      "section",
      { class: "card inbox-item", "aria-label": "A pending prediction" },
      this.#gone,
      this.#served,
      this.#when,
      this.#given,
      this.#features,
      this.#more,
      h("p", { class: "ask", "data-needs": "write" }, "What is the true label?", this.#confirm),
      h("p", { class: "help", "data-lacks": "write" }, "This API key can view pending predictions, but not reveal labels."),
      this.#buttons,
      h("div", { class: "actions" }, skip, drop, this.#back),
    );
  }

  /** What a button or a key does. Whatever it is, it was meant for the one that is shown: if that is gone, all of them
   *  only go on to the next, which is still unread. */
  #do(what, ...values) {
    return (event) => {
      // Where a click has left the focus, Enter would do the same again instead of confirming the next one.
      if (event?.detail) event.currentTarget.blur();
      if (this.#isGone) this.#does.goOn();
      else this.#does[what](...values);
    };
  }

  /** Whether a key meant something. */
  press(pressed) {
    // Tab, arrows and Shift move about the page, also on one that is gone.
    const isTyped = pressed.length === 1 || pressed === "Enter";
    const act = this.#isGone ? isTyped && this.#do("goOn") : this.#actOf(pressed);
    if (!act) return false;
    act();
    return true;
  }

  #actOf(pressed) {
    if (pressed.toLowerCase() === "s") return this.#do("skip");
    if (pressed.toLowerCase() === "p") return this.#back.hidden ? null : this.#do("back");
    if (!mayNow("write")) return null;
    if (pressed.toLowerCase() === "v") return this.#do("drop");
    if (pressed === "Enter") return this.#servedLabel === null ? null : this.#do("reveal", this.#servedLabel);
    const found = this.#offered.find((each) => each.key === pressed);
    return found ? this.#do("reveal", found.label) : null;
  }

  /** `isGone`: it waits no longer, and stays only so that nothing unread takes its place. `previous`: the one before, or
   *  null. One with a `label` was labelled here. */
  show(prediction, classes, isOpenSet, { isGone, previous }) {
    this.#build(prediction, classes, isOpenSet);
    this.#isGone = isGone;
    this.#gone.hidden = !isGone;
    this.#back.hidden = previous === null;
    this.#given.hidden = !("label" in prediction);
    if ("label" in prediction)
      setText(this.#given, `You labelled it ${labelText(prediction.label)}. Another label corrects it; Skip keeps it.`);
    this.#confirm.hidden = prediction.served === null;
    this.element.classList.toggle("gone", isGone);
    this.#buttons.setAttribute("aria-disabled", String(isGone));
    const { at, probability, score, ask } = prediction;
    const asked = ask ? "Its label is asked for. " : "";
    setText(this.#when, `${asked}Served ${ago(at)}.`);
    this.#when.title = dateTime(at);
    if (this.#shown === prediction.prediction_id) return;
    this.#shown = prediction.prediction_id;
    const sure =
      probability === null ? "" : `, with an estimated probability of ${percent(probability, 1)} of being right`;
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

  /** The buttons stay while the prediction and the labels do: one that is replaced loses clicks and focus. */
  #build({ prediction_id: id, served }, classes, isOpenSet) {
    const labels = classes.map(({ label }) => label);
    const shape = JSON.stringify([id, labels, isOpenSet]);
    if (shape === this.#shape) return;
    this.#shape = shape;
    this.#servedLabel = served;
    this.#offered = this.#order.offered(classes).slice(0, BUTTONS_MAX);
    const isOffered = served === null || this.#offered.some(({ label }) => label === served);
    if (!isOffered) this.#offered.push({ label: served, key: null });
    // Where a click has left the focus, Enter would repeat that label instead of confirming the next one.
    const focused = this.#buttons.querySelector(":focus-visible");
    const halfTyped = id === this.#shown ? this.#buttons.querySelector("input")?.value : "";
    const buttons = this.#offered.map((each) => this.#button(each, each.label === served));
    const needsTyping = isOpenSet || labels.length > BUTTONS_MAX;
    this.#buttons.replaceChildren(...buttons, ...(needsTyping ? [this.#typed(labels)] : []));
    const input = this.#buttons.querySelector("input");
    if (input && halfTyped) input.value = halfTyped;
    // Who goes by Tab, or types, goes on where they were.
    if (focused?.matches("input, [type=submit]")) input?.focus({ preventScroll: true });
    else if (focused) buttons.find(({ title }) => title === focused.title)?.focus({ preventScroll: true });
  }

  #button({ label, key: name }, isServed) {
    return h(
      "button",
      { type: "button", class: isServed ? "served" : null, title: String(label), onclick: this.#do("reveal", label) },
      h("span", { class: "label" }, labelText(label)),
      name ? key(name) : null,
    );
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
      this.#do("reveal", parseLabel(input.value, labels))();
      input.value = "";
    };
    const button = h("button", { type: "submit" }, "Reveal");
    return h("form", { class: "other", onsubmit: send }, input, names, button);
  }
}

function key(name) {
  return h("kbd", { "aria-hidden": "true" }, name);
}

// Which key and which place a label has. It knows nothing about the page.

const KEYS = 9;

/** Labels keep their keys and their places as long as this object lives: hands learn them. */
class LabelOrder {
  #keys = new Map(); // label → its key, or null, in the order of their places

  /** [{label, key}] of the classes of /stats: up to nine as the model has them, of more the most frequent ones first.
   *  Labels that appear later come last. Only the first nine have a key. */
  offered(classes) {
    const added = classes.filter(({ label }) => !this.#keys.has(label));
    if (classes.length > KEYS) added.sort((one, other) => other.support - one.support);
    for (const { label } of added) this.#keys.set(label, this.#keys.size < KEYS ? String(this.#keys.size + 1) : null);
    const present = new Set(classes.map(({ label }) => label));
    return [...this.#keys].filter(([label]) => present.has(label)).map(([label, key]) => ({ label, key }));
  }
}
