// Plain tables of figures: windows, baselines, label delay.

import { card, h, setText, table } from "../lib/dom.js";
import { count, duration, percent, real, score } from "../lib/format.js";

const WINDOWS = [
  ["last_100", "Last 100 rounds"],
  ["last_1000", "Last 1,000 rounds"],
  ["last_10000", "Last 10,000 rounds"],
  ["minute", "Last minute"],
  ["hour", "Last hour"],
  ["day", "Last day"],
];

/** A table whose rows are known beforehand and whose cells change. */
class Rows {
  #cells = new Map();
  body = h("tbody");

  constructor(rows, columns) {
    for (const [key, name] of rows) {
      const cells = Array.from({ length: columns }, () => h("td", { class: "number" }));
      this.#cells.set(key, cells);
      this.body.append(h("tr", {}, h("th", { scope: "row" }, name), cells));
    }
  }

  set(key, ...texts) {
    this.#cells.get(key).forEach((cell, i) => setText(cell, texts[i]));
  }
}

export class WindowsCard {
  #rows = new Rows(WINDOWS, 3);
  element = card(
    "Windows",
    "side windows",
    table(
      "Errors over the last rounds and over the last time",
      ["Over", "#Rounds", "#Mistakes", "#Error"],
      this.#rows.body,
    ),
  );

  show({ windows }) {
    for (const [key] of WINDOWS) {
      const { rounds, mistakes, error_rate: rate } = windows[key];
      this.#rows.set(key, count(rounds), count(mistakes), percent(rate));
    }
  }
}

const RIVALS = [
  ["model", "This model"],
  ["majority", "Always the most common label"],
  ["no_change", "Always the last label"],
];
const KAPPAS = [
  ["kappa", "κ, compared with chance"],
  ["kappa_m", "κₘ, compared with the most common label"],
  ["kappa_t", "κₜ, compared with the last label"],
];

export class BaselinesCard {
  #bars = new Map();
  #kappas = new Map();
  element = card(
    "Compared with simple rules",
    "half baselines",
    h(
      "dl",
      { class: "bars" },
      RIVALS.map(([key, name]) => this.#bar(key, name)),
    ),
    h(
      "dl",
      { class: "facts" },
      KAPPAS.map(([key, name]) => this.#kappa(key, name)),
    ),
    h("p", { class: "help" }, "κ is 1 for a model that is always right, 0 for one that is as good as the rule, and negative for a worse one."),
  );

  #bar(key, name) {
    const value = h("span", { class: "number" });
    const bar = h("span", { class: "bar", "aria-hidden": "true" });
    this.#bars.set(key, { value, bar });
    return h(
      "div",
      { class: key },
      h("dt", {}, name),
      h("dd", {}, h("span", { class: "track", "aria-hidden": "true" }, bar), value),
    );
  }

  #kappa(key, name) {
    const value = h("dd");
    this.#kappas.set(key, value);
    return h("div", {}, h("dt", {}, name), value);
  }

  show({ baselines, error_rate: rate }) {
    const rates = {
      model: rate,
      majority: baselines.majority_error_rate,
      no_change: baselines.no_change_error_rate,
    };
    const highest = Math.max(...Object.values(rates), 0.01);
    for (const [key, { value, bar }] of this.#bars) {
      setText(value, percent(rates[key]));
      bar.style.width = `${(100 * (rates[key] ?? 0)) / highest}%`;
    }
    for (const [key, value] of this.#kappas) setText(value, score(baselines[key]));
  }
}

const QUANTILES = [
  ["p50", "50% within"],
  ["p90", "90% within"],
  ["p99", "99% within"],
  ["max", "Longest"],
];

export class DelayCard {
  #values = new Map();
  #updates = h("dd");
  #late = h("dd");
  element = card(
    "Label delay",
    "half delay",
    h(
      "dl",
      { class: "quantiles" },
      QUANTILES.map(([key, name]) => this.#quantile(key, name)),
    ),
    h(
      "dl",
      { class: "facts" },
      h("div", {}, h("dt", {}, "Most updates between a prediction and its label"), this.#updates),
      h("div", {}, h("dt", {}, "Predictions that expired without a label"), this.#late),
    ),
  );

  #quantile(key, name) {
    const value = h("dd");
    this.#values.set(key, value);
    return h("div", {}, h("dt", {}, name), value);
  }

  show({ delay, rounds }) {
    for (const [key, value] of this.#values) setText(value, duration(delay.seconds[key]));
    setText(this.#updates, real(delay.updates_max));
    setText(this.#late, count(rounds.expired));
  }
}
