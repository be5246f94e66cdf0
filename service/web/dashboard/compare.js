// Several models beside each other: their errors in one chart, their statistics in columns, and what their settings differ in.

import { getJson, modelPath } from "./api.js";
import { Chart, Legend } from "./chart.js";
import { differing, figuresOf } from "./compare_figures.js";
import { EMPTY_ROUNDS, topOf, trailingRate, windowOf } from "./curve.js";
import { h, longName, setText, table } from "./dom.js";
import { count, percent, percentTick, plural, shortCount } from "./format.js";
import { Feed } from "./feed.js";
import { showState } from "./live.js";
import { refusal } from "./notice.js";
import { Throttle } from "./timing.js";

const MOST = 8;
const EVERY_MS = 2000;
const OFFERED = 20;

/** Show models beside each other in `main`; the address names them. */
export function openCompare(main, query) {
  const view = new Compare(main);
  view.follow(query);
  return view;
}

/** A link to compare a model with others. */
export function compareLink(name) {
  return h("a", { href: `#/compare?${new URLSearchParams({ models: name })}` }, "Compare");
}

class Compare {
  #main;
  #names = [];
  #shown = [];
  #isClosed = false;
  #chart = new Chart();
  #legend = new Legend();
  #chips = h("ul", { class: "compare-names", "aria-label": "Models that are compared" });
  #words = h("p", { class: "help", role: "status" });
  #error = h("p", { class: "error", role: "alert" });
  #offers = h("datalist", { id: "compare-offers" });
  #input = h("input", {
    id: "compare-add",
    type: "text",
    list: "compare-offers",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: "128",
    oninput: () => this.#offer.ask(),
  });
  #figures = h("div", { class: "scroll", role: "group", tabindex: "0", "aria-label": "Statistics" });
  #settings = h("div", { class: "scroll", role: "group", tabindex: "0", "aria-label": "Settings that differ" });
  #offer = new Throttle(() => this.#loadOffers(), 200);
  #read = new Throttle(() => this.#load(), EVERY_MS);
  #feed = new Feed("feed?models=", (event) => event !== "refused" && this.#read.ask(), showState);

  constructor(main) {
    this.#main = main;
    const add = h(
      "form",
      { class: "compare-form", onsubmit: (event) => this.#add(event) },
      h("label", { for: "compare-add" }, "Add a model"),
      this.#input,
      this.#offers,
      h("button", { type: "submit" }, "Add"),
    );
    main.replaceChildren(
      h(
        "div",
        { class: "compare" },
        h(
          "div",
          { class: "page-head" },
          h("p", { class: "crumb" }, h("a", { href: "#/" }, "All models")),
          h("h1", { tabindex: "-1" }, "Compare"),
        ),
        add,
        this.#error,
        this.#chips,
        this.#words,
        h("section", { class: "card", "aria-label": "Error over rounds" }, this.#legend.element, this.#chart.element),
        h("section", { class: "card", "aria-label": "Statistics" }, this.#figures),
        h("section", { class: "card", "aria-label": "Settings that differ" }, this.#settings),
      ),
    );
    this.#feed.start();
    this.#offer.ask();
  }

  close() {
    this.#isClosed = true;
    this.#feed.stop();
    this.#read.stop();
    this.#offer.stop();
  }

  /** Go to the models that an address names. */
  follow(query) {
    const names = (query.get("models") ?? "").split(",").filter(Boolean);
    this.#names = [...new Set(names)].slice(0, MOST);
    this.#feed.follow(`feed?${new URLSearchParams({ models: this.#names.join(",") })}`);
    this.#showNames();
    this.#load();
  }

  #go(names) {
    location.hash = `#/compare?${new URLSearchParams({ models: names.join(",") })}`;
  }

  #add(event) {
    event.preventDefault();
    const name = this.#input.value.trim();
    setText(this.#error, "");
    if (!name || this.#names.includes(name)) return;
    if (this.#names.length >= MOST) setText(this.#error, `At most ${MOST} models fit beside each other.`);
    else {
      this.#input.value = "";
      this.#go([...this.#names, name]);
    }
  }

  #showNames() {
    const without = (name) => this.#names.filter((each) => each !== name);
    this.#chips.replaceChildren(
      ...this.#names.map((name) =>
        h(
          "li",
          {},
          h("a", { href: `#/models/${encodeURIComponent(name)}`, title: name, "aria-label": name }, longName(name)),
          h("button", { type: "button", class: "quiet", "aria-label": `Leave out ${name}`, onclick: () => this.#go(without(name)) }, "×"),
        ),
      ),
    );
    setText(this.#words, this.#names.length < 2 ? `Add ${this.#names.length ? "another model" : "two models or more"} to compare.` : "");
  }

  async #loadOffers() {
    const query = new URLSearchParams({ contains: this.#input.value.trim(), limit: OFFERED, fields: "model" });
    try {
      const { models } = await getJson(`stats?${query}`);
      this.#offers.replaceChildren(...models.map(({ model }) => h("option", { value: model })));
    } catch {
      // A name can be typed all the same.
    }
  }

  async #load() {
    const asked = this.#names;
    try {
      const found = await Promise.all(asked.map((name) => readOne(name)));
      if (this.#isClosed || asked !== this.#names) return;
      const missing = asked.filter((_, i) => found[i] === null);
      if (missing.length) setText(this.#error, `There is no model ${missing.join(", ")}.`);
      this.#shown = found.filter((each) => each !== null);
      this.#show();
    } catch (error) {
      if (error.status && !this.#isClosed) this.#main.replaceChildren(refusal(error));
    }
  }

  #show() {
    const rounds = Math.max(0, ...this.#shown.map(({ stats }) => stats.rounds.revealed));
    const window = windowOf(rounds);
    const series = this.#shown.map(({ stats }, i) => ({
      name: stats.model,
      kind: `expert-${i}`,
      points: trailingRate(stats.curve, window),
    }));
    const yMax = topOf(
      series.map(({ points }) => points),
      rounds,
    );
    this.#legend.show(series);
    this.#chart.draw({
      series,
      xMax: rounds || EMPTY_ROUNDS,
      yMax,
      nameX: "Round",
      formatX: shortCount,
      formatY: percentTick,
      leastX: 1,
      formatValue: { x: count, y: percent },
      title: `Error over the last ${count(window)} rounds`,
      text: `Of ${plural(series.length, "model")}.`,
    });
    const heads = this.#shown.map(({ stats }) => `#${stats.model}`);
    this.#figures.replaceChildren(table("Statistics of each model", ["", ...heads], rows(figuresOf(this.#shown))));
    const differs = differing(this.#shown.map(({ info }) => info.settings));
    this.#settings.replaceChildren(
      differs.length
        ? table("Settings that differ", ["Setting", ...heads], rows(differs))
        : h("p", { class: "help" }, this.#shown.length > 1 ? "Their settings are the same." : ""),
    );
  }
}

/** {stats, info} of a model; null if there is none. */
async function readOne(name) {
  try {
    const [stats, info] = await Promise.all([
      getJson(modelPath("stats", name)),
      getJson(modelPath("models", name)),
    ]);
    return { stats, info };
  } catch (error) {
    if (error.status === 404 || error.status === 422) return null;
    throw error;
  }
}

function rows(lines) {
  return h(
    "tbody",
    {},
    lines.map(([name, ...texts]) =>
      h("tr", {}, h("th", { scope: "row" }, name), texts.map((text) => h("td", { class: "number" }, text))),
    ),
  );
}
