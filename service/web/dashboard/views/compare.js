// Models and challengers beside each other: their errors in one chart, their statistics in columns, and what their
// settings differ in.

import { Chart, Legend } from "../charts/chart.js";
import { EMPTY_ROUNDS, topOf } from "../charts/curve.js";
import { card, h, longName, setText, table } from "../lib/dom.js";
import { compareAddress, entrantOf, MOST, offersFor, readEntrants } from "../lib/entrants.js";
import { Feed } from "../lib/feed.js";
import { count, percent, percentTick, shortCount, shortLabels } from "../lib/format.js";
import { showState } from "../lib/live.js";
import { Throttle } from "../lib/timing.js";
import { refusal, scrollArea } from "../lib/widgets.js";
import { differing, figuresOf } from "./compare_figures.js";
import { linesOf, wordsOnLines } from "./compare_lines.js";

const EVERY_MS = 2000;
const OFFERED = 20;
const HEAD_LETTERS_MAX = 40;
const CELL_LETTERS_MAX = 200;
const NAME_CHARS_MAX = 257; // of a model, a slash, and of a challenger

/** Show models beside each other in `main`; the address names them. */
export function openCompare(main, query) {
  const view = new Compare(main);
  view.follow(query);
  return view;
}

/** A link to compare a model with others. */
export function compareLink(name) {
  return h("a", { href: compareAddress([name]) }, "Compare");
}

class Compare {
  #main;
  #names = [];
  #shown = [];
  #isClosed = false;
  #chart = new Chart();
  #legend = new Legend();
  #chips = h("ul", { class: "compare-names", "aria-label": "Models compared" });
  #words = h("p", { class: "help", role: "status" });
  #lineWords = h("p", { class: "words" });
  #error = h("p", { class: "error", role: "alert" });
  #offers = h("datalist", { id: "compare-offers" });
  #input = h("input", {
    id: "compare-add",
    type: "text",
    list: "compare-offers",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: String(NAME_CHARS_MAX),
    oninput: () => this.#offer.ask(),
  });
  #figures = scrollArea("Statistics", "");
  #settings = scrollArea("Settings that differ", "");
  #cards = [
    card("Error over rounds", "", this.#legend.element, this.#chart.element, this.#lineWords),
    card("Statistics", "", this.#figures.element),
    card("Settings that differ", "", this.#settings.element),
  ];
  #offer = new Throttle(() => this.#loadOffers(), 200);
  #read = new Throttle(() => this.#load(), EVERY_MS);
  #feed = new Feed("feed?models=", (event) => event !== "refused" && this.#read.ask(), showState);

  constructor(main) {
    this.#main = main;
    const add = h(
      "form",
      { class: "compare-form", onsubmit: (event) => this.#add(event) },
      h("label", { for: "compare-add" }, "Add a model or model/challenger"),
      this.#input,
      this.#offers,
      h("button", { type: "submit" }, "Add"),
    );
    for (const each of this.#cards) each.hidden = true;
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
        ...this.#cards,
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
    const models = [...new Set(this.#names.map((name) => entrantOf(name).model))];
    this.#feed.follow(`feed?${new URLSearchParams({ models: models.join(",") })}`);
    setText(this.#error, "");
    this.#showNames();
    this.#load();
  }

  #go(names) {
    location.hash = compareAddress(names);
  }

  #add(event) {
    event.preventDefault();
    const name = this.#input.value.trim();
    setText(this.#error, "");
    if (!name || this.#names.includes(name)) return;
    if (this.#names.length >= MOST) setText(this.#error, `At most ${MOST} can be compared.`);
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
          h("a", { href: `#/models/${encodeURIComponent(entrantOf(name).model)}`, title: name, "aria-label": name }, longName(name)),
          h("button", { type: "button", class: "quiet", "aria-label": `Leave out ${name}`, onclick: () => this.#go(without(name)) }, "×"),
        ),
      ),
    );
    setText(this.#words, this.#names.length < 2 ? `Add ${this.#names.length ? "another model or challenger" : "two models or more"} to compare.` : "");
  }

  async #loadOffers() {
    try {
      const offers = await offersFor(this.#input.value.trim(), OFFERED);
      this.#offers.replaceChildren(...offers.map((value) => h("option", { value })));
    } catch {
      // A name can be typed all the same.
    }
  }

  async #load() {
    const asked = this.#names;
    try {
      const { found, missing } = await readEntrants(asked);
      if (this.#isClosed || asked !== this.#names) return;
      if (missing.length) setText(this.#error, [...new Set(missing)].join(" "));
      this.#shown = found;
      this.#show();
    } catch (error) {
      if (error.status && !this.#isClosed) this.#main.replaceChildren(refusal(error));
    }
  }

  #show() {
    const [, , ofSettings] = this.#cards;
    for (const each of this.#cards) each.hidden = !this.#shown.length;
    ofSettings.hidden = this.#shown.length < 2;
    this.#draw();
    this.#figures.fill(this.#table("Statistics of each", "", figuresOf(this.#shown)));
    const differs = differing(this.#shown.map(({ settings }) => settings));
    this.#settings.fill(
      differs.length
        ? this.#table("Settings that differ", "Setting", differs)
        : h("p", { class: "help" }, "Their settings are the same."),
    );
  }

  /** A column for each that is compared. */
  #table(caption, first, lines) {
    const names = this.#shown.map(({ text }) => text);
    const short = shortLabels(names, HEAD_LETTERS_MAX);
    const made = table(caption, [first, ...names.map((name) => `#${short.get(name)}`)], rows(lines));
    made.querySelectorAll("th.number").forEach((head, i) => head.setAttribute("title", names[i]));
    return made;
  }

  #draw() {
    const { series, rounds, window } = linesOf(this.#shown);
    const yMax = topOf(
      series.map(({ points }) => points),
      rounds,
    );
    setText(this.#lineWords, wordsOnLines(this.#shown, series, window));
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
      text: `Of ${series.map(({ name }) => name).join(", ")}.`,
    });
  }
}

function rows(lines) {
  return h(
    "tbody",
    {},
    lines.map(([name, ...texts]) =>
      h("tr", {}, h("th", { scope: "row" }, name), texts.map(cell)),
    ),
  );
}

/** Of a long list of labels the beginning is shown, lest it take up the whole page; its title is all of it. */
function cell(text) {
  if (text.length <= CELL_LETTERS_MAX) return h("td", { class: "number" }, text);
  return h("td", { class: "number", title: text }, `${text.slice(0, CELL_LETTERS_MAX)}…`);
}
