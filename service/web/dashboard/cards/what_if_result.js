// What came of a replay: the settings that were tried beside the live model, ranked, with their curves.

import { Chart, Legend } from "../charts/chart.js";
import { topOf } from "../charts/curve.js";
import { h, setText, table } from "../lib/dom.js";
import { count, percent, plural, real, shortCount } from "../lib/format.js";
import { scrollArea } from "../lib/widgets.js";
import { confidenceText, within } from "./challengers.js";

const DRAWN_MAX = 7;
const HEADS = ["Settings", "#Error", "#Difference", "#Won : lost", "#Evidence", "#Confidence", ""];
const OF_CHALLENGERS = new Set(["learner", "features", "multiclass"]);

/** Settings as people say them: {"learner": {"algorithm": "pa1", "C": 2}} → pa1, C 2. */
export function settingsText(settings) {
  const { learner, ...rest } = settings;
  const words = learner ? [learner.algorithm, ...named(learner, "algorithm")] : [];
  const text = [...words, ...named(rest)].filter((each) => each !== undefined).join(", ");
  return text || "unchanged";
}

function named(values, without) {
  return Object.entries(values)
    .filter(([name]) => name !== without)
    .map(([name, value]) => {
      if (value !== null && typeof value === "object" && !Array.isArray(value)) return `${name} (${named(value).join(", ")})`;
      return `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`;
    });
}

/** `tried` are the settings as they were given. */
export function resultInWords({ live, settings, from_version: from, to_version: to, is_whole: isWhole }, tried) {
  if (!live.rounds) return "The retained history has no rounds.";
  const [best] = settings;
  const found =
    best.confidence > 0.5
      ? `“${settingsText(tried[best.place])}” is better than the model with a confidence of ${confidenceText(best.confidence)}`
      : "Nothing is proven of any of them being better than the model";
  const start = isWhole
    ? ""
    : ` What is older is not kept: each of them began with nothing at version ${count(from)}, and the model with what it knew.`;
  return `${found}, over ${plural(live.rounds, "round")}, versions ${count(from)} to ${count(to)}.${start}`;
}

export class WhatIfResult {
  #keep;
  #enter;
  #chart = new Chart();
  #legend = new Legend();
  #body = h("tbody");
  #words = h("p", { class: "words" });
  #done = h("p", { class: "words", role: "status" });
  #name = h("input", { type: "text", id: "what-if-name", maxlength: "128", spellcheck: "false", autocomplete: "off", required: true });
  #what = h("label", { for: "what-if-name" });
  #submit = h("button", { class: "primary", type: "submit" });
  #naming = h(
    "form",
    { class: "naming", hidden: true, onsubmit: (event) => this.#named(event) },
    this.#what,
    this.#name,
    this.#submit,
    h("button", { type: "button", class: "quiet", onclick: () => (this.#naming.hidden = true) }, "Cancel"),
  );
  #act = null;
  element = h(
    "div",
    { class: "result", hidden: true },
    this.#words,
    scrollArea(
      "Settings tried",
      "",
      table("The settings tried beside the model, the best first", HEADS, this.#body),
    ).element,
    this.#naming,
    this.#done,
    this.#legend.element,
    this.#chart.element,
  );

  /** `keep(settings, name)` makes one of them a model, `enter(settings, name)` a challenger. */
  constructor({ keep, enter }) {
    this.#keep = keep;
    this.#enter = enter;
  }

  /** What a finished job says: a replay, or one that let a challenger enter. */
  show({ kind, result, options }) {
    this.element.hidden = false;
    this.#naming.hidden = true;
    this.#tellDone(kind, options);
    if (kind !== "replay" || (options.as && this.#body.children.length)) return;
    setText(this.#words, resultInWords(result, options.grid));
    const tried = result.settings.map((one) => ({ ...one, given: options.grid[one.place] }));
    this.#body.replaceChildren(
      row("the model itself", result.live, colour(0), ["–", "–", "–", "–"], null),
      ...tried.map((one, i) =>
        row(settingsText(one.given), one, i < DRAWN_MAX ? colour(i + 1) : null, against(one), this.#actions(one.given)),
      ),
    );
    this.#draw(result.live, tried);
  }

  #tellDone(kind, { as, name }) {
    const link = () => h("a", { href: `#/models/${encodeURIComponent(as)}` }, as);
    const told = as ? ["Created the model ", link(), "."] : [];
    this.#done.replaceChildren(...(kind === "challenger" ? [`${name} has learned the history, and is a challenger now.`] : told));
  }

  #actions(settings) {
    const text = settingsText(settings);
    const keep = () => this.#ask(`Keep “${text}” as a model, called`, "Keep", (name) => this.#keep(settings, name));
    const enter = () => this.#ask(`Let “${text}” be a challenger, called`, "Add", (name) => this.#enter(settings, name));
    const mayEnter = Object.keys(settings).every((name) => OF_CHALLENGERS.has(name));
    return h(
      "div",
      { class: "row-actions" },
      h("button", { type: "button", title: "Create a model from it, with everything it has learned", onclick: keep }, "Keep"),
      mayEnter
        ? h("button", { type: "button", title: "Add it as a challenger of this model", onclick: enter }, "Challenge")
        : null,
    );
  }

  #ask(label, verb, act) {
    setText(this.#what, label);
    setText(this.#submit, verb);
    this.#act = act;
    this.#naming.hidden = false;
    this.#name.focus();
  }

  async #named(event) {
    event.preventDefault();
    this.#naming.hidden = true;
    await this.#act(this.#name.value.trim());
  }

  #draw(live, tried) {
    const isShown = ({ round }) => round >= live.rounds / 100;
    const points = ({ curve }) => curve.filter(isShown).map(({ round, error_rate: rate }) => [round, rate]);
    const series = [
      { name: "the model itself", kind: colour(0), points: points(live) },
      ...tried.slice(0, DRAWN_MAX).map((one, i) => ({ name: settingsText(one.given), kind: colour(i + 1), points: points(one) })),
    ];
    const yMax = topOf(
      series.map((each) => each.points),
      live.rounds,
    );
    this.#legend.show(series);
    this.#chart.draw({
      series,
      xMax: Math.max(live.rounds, 1),
      yMax,
      nameX: "Round",
      formatX: shortCount,
      formatY: (value) => percent(value, yMax < 0.04 ? 1 : 0),
      formatValue: { x: count, y: percent },
      title: "The error of each up to a round of the history",
      text: `The model itself erred in ${percent(live.error_rate)} of ${plural(live.rounds, "round")}.`,
    });
  }
}

function colour(index) {
  return `tried-${index}`;
}

function row(name, figures, kind, texts, actions) {
  const dot = h("span", { class: `dot ${kind ?? "undrawn"}`, "aria-hidden": "true" });
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, h("span", { class: "named" }, dot, h("span", { title: name }, name))),
    [within(figures.error_rate, figures.error_rate_interval), ...texts].map((text) => h("td", { class: "number" }, text)),
    h("td", {}, actions),
  );
}

function against({ difference, difference_interval: interval, won, lost, evidence, confidence }) {
  return [within(difference, interval), `${count(won)} : ${count(lost)}`, real(evidence), confidenceText(confidence)];
}
