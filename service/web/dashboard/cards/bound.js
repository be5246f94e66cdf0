// Mistakes against the bound, with the verdict in words.

import { Chart } from "../charts/chart.js";
import { EMPTY_ROUNDS } from "../charts/curve.js";
import { card, h, setText } from "../lib/dom.js";
import { atMost, count, NOTHING, percent, plain, plural, real, sentence, shortCount } from "../lib/format.js";

const NEAR = 10;
const TITLES = {
  within: "Within the bound",
  exceeded: "The declared margin is refuted",
  unknown: "No verdict yet",
  not_applicable: "The bound does not apply",
};

/** What the verdict means, as sentences. */
export function verdictInWords({ bound, rounds, updates }) {
  const learned = rounds.revealed ? `The model has learned from ${plural(updates, "mistake")}.` : "No rounds yet.";
  const allowed = bound.mistake_bound === null ? "finitely many" : atMost(bound.mistake_bound);
  switch (bound.verdict) {
    case "exceeded":
      return [
        learned,
        sentence(bound.why),
        `The margin is at most ${real(bound.margin_ceiling)}, and ${real(bound.gamma)} was declared.`,
      ].join(" ");
    case "within":
      return [
        learned,
        bound.gamma_source === "declared"
          ? `If a plane separates the stream with the declared margin of ${real(bound.gamma)},`
          : `If the margin of ${real(bound.gamma)} seen recently holds for the whole stream,`,
        `there can never be more than ${allowed}. ${sentence(bound.why)}`,
      ].join(" ");
    case "not_applicable":
      return `No theorem bounds the mistakes of this model: ${plain(bound.why ?? "it does not apply")}.`;
    default:
      return `${learned} ${sentence(bound.why)}`;
  }
}

export class BoundCard {
  #verdict = h("p", { class: "verdict" });
  #words = h("p", { class: "words" });
  #chart = new Chart();
  #used = h("p", { class: "used" });
  #facts = new Map();
  element;

  constructor() {
    this.element = card(
      "Mistakes against the bound",
      "side",
      this.#verdict,
      this.#words,
      this.#chart.element,
      this.#used,
      h(
        "dl",
        { class: "facts" },
        this.#fact("radius", "Longest example, R", "The longer examples are, the more mistakes the bound allows."),
        this.#fact("norm", "Length of the weights"),
        this.#fact("ceiling", "Margin ceiling", "No plane separates what was revealed with a wider margin."),
        this.#fact("margin", "Margin, γ", "How far all examples are from the plane that separates them."),
        this.#fact("late", "Updates a label comes late, on average"),
      ),
    );
  }

  #fact(key, name, why = null) {
    const value = h("dd");
    this.#facts.set(key, value);
    return h("div", {}, h("dt", {}, name, why && h("span", { class: "why" }, why)), value);
  }

  show(stats) {
    const { bound, updates } = stats;
    this.#verdict.dataset.verdict = bound.verdict;
    setText(this.#verdict, TITLES[bound.verdict] ?? bound.verdict);
    setText(this.#words, verdictInWords(stats));
    const values = {
      radius: real(bound.R),
      norm: real(bound.weight_norm),
      ceiling: real(bound.margin_ceiling),
      margin: bound.gamma === null ? NOTHING : `${real(bound.gamma)}, ${bound.gamma_source}`,
      late: real(bound.stale_updates_mean),
    };
    for (const [key, text] of Object.entries(values)) {
      setText(this.#facts.get(key), text);
      this.#facts.get(key).parentElement.hidden = text === NOTHING;
    }
    this.#draw(stats, bound.verdict === "exceeded" ? null : bound.mistake_bound, updates);
  }

  #draw({ curve, rounds, mistakes }, limit, updates) {
    const isNear = limit !== null && limit <= NEAR * Math.max(mistakes, 1);
    setText(this.#used, this.#usedText(limit, updates, isNear));
    const xMax = rounds.revealed || EMPTY_ROUNDS;
    this.#chart.draw({
      series: [
        {
          name: "Mistakes",
          kind: "mistakes",
          points: curve.rounds.map((round, i) => [round, curve.mistakes[i]]),
        },
        {
          name: "Bound",
          kind: "bound",
          points: isNear
            ? [
                [0, limit],
                [xMax, limit],
              ]
            : [],
        },
      ],
      xMax,
      yMax: Math.max(4, mistakes * 1.1, isNear ? limit * 1.1 : 0),
      nameX: "Round",
      formatX: shortCount,
      formatY: shortCount,
      leastX: 1,
      leastY: 1,
      formatValue: { x: count, y: count },
      title: "Mistakes over rounds",
      text: `${plural(mistakes, "mistake")} in ${plural(rounds.revealed, "round")}.`,
    });
  }

  #usedText(limit, updates, isNear) {
    if (limit === null) return "";
    const share = updates / limit;
    const used = share > 0 && share < 0.0001 ? "less than 0.01%" : percent(share);
    return `${used} of ${atMost(limit)} used${isNear ? "" : "; the bound is far above this chart"}`;
  }
}
