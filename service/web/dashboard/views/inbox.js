// The labels inbox: predictions that wait, one at a time; one key or one click reveals the label.

import { getJson, modelPath, postJson, request } from "../lib/api.js";
import { h, setText } from "../lib/dom.js";
import { Feed } from "../lib/feed.js";
import { labelText, plural } from "../lib/format.js";
import { sayFailure, showState } from "../lib/live.js";
import { Throttle } from "../lib/timing.js";
import { notice, refusal } from "../lib/widgets.js";
import { InboxItem } from "./inbox_item.js";
import { InboxQueue } from "./inbox_queue.js";

const EVERY_MS = 1500;
const UNDO_MS = 20_000;
const ORDERS = [
  ["newest", "Newest first"],
  ["least_sure", "Least certain first"],
];

/** Show the inbox of a model in `main`. */
export function openInbox(main, name, query) {
  const inbox = new Inbox(main, name, query.get("order"));
  inbox.open();
  return inbox;
}

class Inbox {
  #main;
  #name;
  #queue;
  #classes = [];
  #pending = 0;
  #isOpenSet = false;
  #revealed = 0;
  #busy = false;
  #isClosed = false;
  #held = new Map(); // id of a discarded prediction → the timer that sends it
  #read = new Throttle(() => this.#load(), EVERY_MS);
  #feed;
  #count = h("p", { class: "about", role: "status" });
  #said = h("p", { class: "inbox-said", role: "status" });
  #undo = h("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.#back() }, "Undo");
  #undoable = null;
  #place = h("div", { class: "inbox-place" });
  #item = new InboxItem({
    reveal: (label) => this.#reveal(label),
    skip: () => this.#skip(),
    drop: () => this.#drop(),
    goOn: () => this.#goOn(),
    back: () => this.#back(),
  });
  #order = h(
    "select",
    { id: "order", onchange: () => this.#reorder() },
    ORDERS.map(([value, text]) => h("option", { value }, text)),
  );
  #press = (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, dialog");
    // A button that has the focus takes these two itself.
    if (["Enter", " "].includes(event.key) && event.target.closest?.("a, button")) return;
    if (isTyping || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    const isPressed = this.#queue.current ? this.#item.press(event.key) : this.#pressOfNone(event.key);
    if (isPressed) event.preventDefault();
  };
  #sendDiscards = () => {
    for (const id of this.#held.keys()) this.#discard(id);
  };

  constructor(main, name, order) {
    this.#main = main;
    this.#name = name;
    this.#order.value = ORDERS.some(([value]) => value === order) ? order : "newest";
    this.#queue = new InboxQueue(this.#order.value);
    const path = `feed?${new URLSearchParams({ model: name })}`;
    this.#feed = new Feed(path, (event, data) => this.#frame(event, data), showState);
  }

  open() {
    const back = h("a", { href: `#/models/${encodeURIComponent(this.#name)}` }, this.#name);
    const head = h(
      "div",
      { class: "page-head" },
      h("p", { class: "crumb" }, back),
      h("h1", { tabindex: "-1" }, "Labels"),
      this.#count,
    );
    const last = h("div", { class: "inbox-last" }, this.#said, " ", this.#undo);
    const toolbar = h("div", { class: "inbox-bar" }, h("label", {}, "Order ", this.#order), last);
    this.#main.replaceChildren(h("div", { class: "inbox" }, head, toolbar, this.#place));
    document.addEventListener("keydown", this.#press);
    window.addEventListener("pagehide", this.#sendDiscards);
    this.#feed.start();
    this.#load();
  }

  close() {
    this.#isClosed = true;
    this.#feed.stop();
    this.#read.stop();
    document.removeEventListener("keydown", this.#press);
    window.removeEventListener("pagehide", this.#sendDiscards);
    this.#sendDiscards();
  }

  #frame(event, data) {
    if (event === "refused") this.#refused(data);
    else if (data.deleted) this.#gone();
    else {
      this.#take(data);
      this.#read.ask();
    }
  }

  #take({ classes, rounds }) {
    this.#classes = classes;
    this.#pending = rounds.pending;
    this.#tellCount();
  }

  #tellCount() {
    const waits = plural(Math.max(0, this.#pending - this.#queue.discarded), "prediction is pending", "predictions are pending");
    setText(this.#count, `${waits}.`);
  }

  async #load() {
    const asked = this.#queue;
    try {
      const query = new URLSearchParams({ order: asked.order, limit: asked.limit });
      const [page, stats, model] = await Promise.all([
        getJson(`${modelPath("models", this.#name)}/pending?${query}`),
        getJson(`${modelPath("stats", this.#name)}?fields=classes,rounds`),
        getJson(modelPath("models", this.#name)),
      ]);
      if (this.#isClosed || asked !== this.#queue) return;
      this.#isOpenSet = model.settings.labels === null;
      this.#take(stats);
      // What is being revealed by this page is not gone by what others do.
      if (this.#busy) this.#read.ask();
      else {
        asked.refill(page);
        this.#show();
      }
    } catch (error) {
      if (error.status === 404) this.#gone();
      else if (error.status && !this.#isClosed) this.#refused(error);
      // Else the service is away: the feed says so, and asks again.
    }
  }

  #show() {
    const { current, previous } = this.#queue;
    this.#tellCount();
    this.#undo.hidden = previous === null || previous !== this.#undoable;
    if (current) {
      this.#item.show(current, this.#classes, this.#isOpenSet, this.#queue);
      if (!this.#item.element.isConnected) this.#place.replaceChildren(this.#item.element);
    } else this.#place.replaceChildren(this.#nothing());
  }

  #nothing() {
    const skipped = this.#queue.skipped;
    if (!skipped)
      return h("p", { class: "inbox-none" }, "No pending predictions. New ones appear here automatically.");
    const again = () => {
      this.#queue.forgetSkips();
      this.#load();
    };
    return h(
      "p",
      { class: "inbox-none" },
      `${plural(skipped, "prediction was", "predictions were")} skipped, and no others are pending. `,
      h("button", { type: "button", onclick: again }, "Look at them again"),
    );
  }

  #reorder() {
    this.#queue = new InboxQueue(this.#order.value, this.#queue);
    const query = this.#order.value === "newest" ? "" : `?order=${this.#order.value}`;
    history.replaceState(null, "", `#/models/${encodeURIComponent(this.#name)}/labels${query}`);
    this.#load();
  }

  /** Where nothing is shown, the one before can be gone back to. */
  #pressOfNone(pressed) {
    if (pressed.toLowerCase() !== "p" || this.#queue.previous === null) return false;
    this.#back();
    return true;
  }

  /** To the one before. A discard is undone by that; a label stays until another one corrects it. */
  #back() {
    if (this.#busy) return;
    const id = this.#queue.previous;
    this.#queue.back();
    clearTimeout(this.#held.get(id));
    this.#held.delete(id);
    this.#say("");
    this.#show();
    this.#read.ask(); // it may have been labelled meanwhile
  }

  /** From one that somebody else has labelled to the next. */
  #goOn() {
    this.#queue.done();
    this.#say("");
    this.#show();
    this.#read.ask();
  }

  #skip() {
    if (this.#busy) return;
    this.#queue.pass("label" in this.#queue.current ? "labelled" : "skipped");
    this.#say("");
    this.#show();
    if (!this.#queue.current) this.#read.ask();
  }

  /** Send the label of the current one; if it was labelled here before, correct it. */
  async #reveal(label) {
    const queue = this.#queue; // another order may be chosen meanwhile
    const prediction = queue.current;
    if (this.#busy || !prediction) return;
    this.#busy = true;
    try {
      const act = "label" in prediction ? this.#correct(prediction, label) : this.#label(prediction, label);
      const [words, isMistake] = await act;
      queue.pass("labelled", { label });
      this.#say(words, isMistake, prediction.prediction_id);
    } catch (error) {
      const isOver = [404, 409, 410].includes(error.status);
      this.#say(isOver ? `Already labelled or expired: ${error.message}.` : "", true);
      if (isOver) queue.done();
      else sayFailure(this.#said, error);
    }
    this.#busy = false;
    if (this.#isClosed) return;
    this.#show();
    this.#read.ask();
  }

  async #label({ prediction_id: id }, label) {
    const outcome = await postJson("feedback", { prediction_id: id, label });
    this.#revealed += 1;
    const served = outcome.mistake ? `${labelText(outcome.predicted)} was served, a mistake` : "as it was served";
    return [`${labelText(label)}: ${served}. ${plural(this.#revealed, "label")} by you.`, outcome.mistake];
  }

  async #correct({ prediction_id: id, label: former }, label) {
    if (label === former) return [`${labelText(label)}, as before.`, false];
    await postJson(`feedback/${encodeURIComponent(id)}`, { label }, "PUT");
    return [`Corrected: ${labelText(label)} instead of ${labelText(former)}.`, false];
  }

  /** Discard the current one. The service cannot undo that, hence the delay until the time for Undo is over. */
  #drop() {
    if (this.#busy) return;
    const { prediction_id: id } = this.#queue.current;
    this.#queue.pass("discarded");
    this.#held.set(id, setTimeout(() => this.#discard(id), UNDO_MS));
    this.#say("Discarded.", false, id);
    this.#show();
    if (!this.#queue.current) this.#read.ask();
  }

  async #discard(id) {
    clearTimeout(this.#held.get(id));
    this.#held.delete(id);
    if (!this.#queue.close(id)) return; // it was labelled elsewhere meanwhile, or has expired
    if (!this.#isClosed) this.#show();
    try {
      await request(`predictions/${encodeURIComponent(id)}`, { method: "DELETE", keepalive: true });
    } catch (error) {
      this.#queue.reopen(id);
      if (this.#isClosed) return;
      this.#say("", true);
      sayFailure(this.#said, error);
      this.#show();
      this.#read.ask();
    }
  }

  /** `undoable`: the prediction to which Undo goes back, as long as it is the last one. */
  #say(text, isWrong = false, undoable = null) {
    this.#said.classList.toggle("wrong", isWrong);
    setText(this.#said, text);
    this.#undoable = undoable;
  }

  #refused(error) {
    if (error.status === 404 || error.status === 422) this.#gone();
    else if (!this.#isClosed) this.#main.replaceChildren(refusal(error));
  }

  #gone() {
    if (this.#isClosed) return;
    this.close();
    const all = h("a", { href: "#/" }, "All models");
    this.#main.replaceChildren(notice("Model not found", `There is no model ${this.#name}.`, all));
  }
}
