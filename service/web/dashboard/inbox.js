// The labels inbox: predictions that wait, one at a time; one key or one click reveals the label.

import { getJson, modelPath, postJson, request } from "./api.js";
import { h, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { labelText, plural } from "./format.js";
import { InboxItem } from "./inbox_item.js";
import { InboxQueue } from "./inbox_queue.js";
import { sayFailure, showState } from "./live.js";
import { notice, refusal } from "./notice.js";
import { Throttle } from "./timing.js";

const EVERY_MS = 1500;
const ORDERS = [
  ["newest", "Newest first"],
  ["least_sure", "Least sure first"],
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
  #confusion = { labels: [] };
  #isOpenSet = false;
  #revealed = 0;
  #busy = false;
  #isClosed = false;
  #read = new Throttle(() => this.#load(), EVERY_MS);
  #feed;
  #count = h("p", { class: "about", role: "status" });
  #said = h("p", { class: "inbox-said", role: "status" });
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
    const toolbar = h("div", { class: "inbox-bar" }, h("label", {}, "Order ", this.#order), this.#said);
    this.#main.replaceChildren(h("div", { class: "inbox" }, head, toolbar, this.#place));
    document.addEventListener("keydown", this.#press);
    this.#feed.start();
    this.#load();
  }

  close() {
    this.#isClosed = true;
    this.#feed.stop();
    this.#read.stop();
    document.removeEventListener("keydown", this.#press);
  }

  #frame(event, data) {
    if (event === "refused") this.#refused(data);
    else if (data.deleted) this.#gone();
    else {
      this.#take(data);
      this.#read.ask();
    }
  }

  #take({ confusion, rounds }) {
    this.#confusion = confusion;
    const waits = plural(rounds.pending, "prediction waits", "predictions wait");
    setText(this.#count, `${waits} for a label.`);
  }

  async #load() {
    const asked = this.#queue;
    try {
      const query = new URLSearchParams({ order: asked.order, limit: asked.limit });
      const [page, stats, model] = await Promise.all([
        getJson(`${modelPath("models", this.#name)}/pending?${query}`),
        getJson(`${modelPath("stats", this.#name)}?fields=confusion,rounds`),
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
    const current = this.#queue.current;
    if (current) {
      this.#item.show(current, this.#confusion, this.#isOpenSet, this.#queue);
      if (!this.#item.element.isConnected) this.#place.replaceChildren(this.#item.element);
    } else this.#place.replaceChildren(this.#nothing());
  }

  #nothing() {
    const skipped = this.#queue.skipped;
    if (!skipped)
      return h("p", { class: "inbox-none" }, "Nothing waits for a label. New predictions appear here by themselves.");
    const again = () => {
      this.#queue.forgetSkips();
      this.#load();
    };
    return h(
      "p",
      { class: "inbox-none" },
      `${plural(skipped, "prediction was", "predictions were")} skipped, and nothing else waits. `,
      h("button", { type: "button", onclick: again }, "Look at them again"),
    );
  }

  #reorder() {
    this.#queue = new InboxQueue(this.#order.value, this.#queue);
    const query = this.#order.value === "newest" ? "" : `?order=${this.#order.value}`;
    history.replaceState(null, "", `#/models/${encodeURIComponent(this.#name)}/labels${query}`);
    this.#load();
  }

  /** Where nothing is shown, the one that was skipped last can be gone back to. */
  #pressOfNone(pressed) {
    if (pressed.toLowerCase() !== "p" || !this.#queue.skipped) return false;
    this.#back();
    return true;
  }

  /** To the one that was skipped last. */
  #back() {
    if (this.#busy) return;
    this.#queue.back();
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
    this.#queue.skip();
    this.#say("");
    this.#show();
    if (!this.#queue.current) this.#read.ask();
  }

  #reveal(label) {
    return this.#settle(async (id) => {
      const outcome = await postJson("feedback", { prediction_id: id, label });
      this.#revealed += 1;
      const served = outcome.mistake ? `${labelText(outcome.predicted)} was served, a mistake` : "as it was served";
      this.#say(`${labelText(label)}: ${served}. ${plural(this.#revealed, "label")} by you.`, outcome.mistake);
    });
  }

  /** It was never shown to anybody: it does not count. */
  #drop() {
    return this.#settle(async (id) => {
      await request(`predictions/${encodeURIComponent(id)}`, { method: "DELETE" });
      this.#say("The one before does not count.");
    });
  }

  /** Do something by which the current prediction waits no longer. */
  async #settle(act) {
    const prediction = this.#queue.current;
    if (this.#busy || !prediction) return;
    this.#busy = true;
    try {
      await act(prediction.prediction_id);
      this.#queue.done();
    } catch (error) {
      const isOver = [404, 409, 410].includes(error.status);
      this.#say(isOver ? `Somebody was faster, or it has expired: ${error.message}.` : "", true);
      if (isOver) this.#queue.done();
      else sayFailure(this.#said, error);
    }
    this.#busy = false;
    if (this.#isClosed) return;
    this.#show();
    this.#read.ask();
  }

  #say(text, isWrong = false) {
    this.#said.classList.toggle("wrong", isWrong);
    setText(this.#said, text);
  }

  #refused(error) {
    if (error.status === 404 || error.status === 422) this.#gone();
    else if (!this.#isClosed) this.#main.replaceChildren(refusal(error));
  }

  #gone() {
    if (this.#isClosed) return;
    this.close();
    const all = h("a", { href: "#/" }, "All models");
    this.#main.replaceChildren(notice("There is no such model", `No model is called ${this.#name}.`, all));
  }
}
