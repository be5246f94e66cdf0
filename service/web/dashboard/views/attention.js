// The models that need a look, above all others.

import { getJson } from "../lib/api.js";
import { h, longName, setText } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { Throttle } from "../lib/timing.js";

const SHOWN = 8;
const EVERY_MS = 10000;
const NAMES = {
  drift: "drift",
  error_risen: "error risen",
  labels_stopped: "labels stopped",
  evicted: "predictions evicted",
  bound_exceeded: "bound exceeded",
  rebuilding: "rebuilding",
  damaged: "damaged",
};

export class Attention {
  #title = h("h2", { id: "attention-title" });
  #list = h("ul");
  #seen = null;
  #read = new Throttle(() => this.#load(), EVERY_MS);
  element = h("section", { class: "attention", "aria-labelledby": "attention-title", hidden: true }, this.#title, this.#list);

  /** Something has changed. */
  ask() {
    this.#read.ask();
  }

  close() {
    this.#read.stop();
  }

  async #load() {
    try {
      this.#show(await getJson(`attention?${new URLSearchParams({ limit: SHOWN })}`));
    } catch {
      // The feed says when the service is away.
    }
  }

  #show({ count, models }) {
    this.element.hidden = !count;
    setText(this.#title, `${plural(count, "model needs", "models need")} a look`);
    const seen = JSON.stringify(models);
    if (seen === this.#seen) return;
    this.#seen = seen;
    const more = count - models.length;
    this.#list.replaceChildren(
      ...models.map(item),
      ...(more > 0 ? [h("li", { class: "more" }, `and ${plural(more, "other")}`)] : []),
    );
  }
}

function item({ model, reasons }) {
  const href = `#/models/${encodeURIComponent(model)}`;
  return h(
    "li",
    {},
    h("a", { href, title: model, "aria-label": model }, longName(model)),
    reasons.flatMap(({ kind, detail }) => [
      h("span", { class: "badge", "data-state": "drift" }, NAMES[kind] ?? kind),
      h("span", { class: "detail" }, detail),
    ]),
  );
}
