// Whether probabilities can be trusted: what was served against what came true, and what is to be expected of the rest.

import { card, h, setText, table } from "./dom.js";
import { count, percent, plural, real, wholePercent } from "./format.js";
import { ReliabilityDiagram } from "./reliability_diagram.js";

const LOSSES = [
  ["brier", "Brier score"],
  ["log_loss", "Log loss"],
];

/** The losses of always serving the share of right labels: what a probability has to beat. */
export function lossesOfTheMean({ rounds, bins }) {
  if (!rounds) return { brier: null, log_loss: null };
  const right = bins.reduce((sum, bin) => sum + bin.rounds * (bin.right_rate ?? 0), 0) / rounds;
  const part = (share) => (share > 0 ? -share * Math.log(share) : 0);
  return { brier: right * (1 - right), log_loss: part(right) + part(1 - right) };
}

/** What is to be expected of the predictions that wait. */
export function unlabelledInWords({ predictions, expected_error_rate: expected }) {
  if (!predictions) return "No prediction waits for its label.";
  const wait = `${plural(predictions, "prediction")} ${predictions === 1 ? "waits for its label" : "wait for their labels"}`;
  if (expected === null) return `${wait}, served without a probability.`;
  return predictions === 1
    ? `${wait}; by its probability it is wrong with a chance of ${percent(expected, 1)}.`
    : `${wait}; by their probabilities ${percent(expected, 1)} of them are wrong.`;
}

export class ReliabilityCard {
  #diagram = new ReliabilityDiagram();
  #words = h("p", { class: "words" });
  #cells = new Map(LOSSES.map(([key]) => [key, [0, 1].map(() => h("td", { class: "number" }))]));
  #waiting = h("p", { class: "words" });
  #bins = h("tbody");
  element = card(
    "Can its probabilities be trusted?",
    "reliability",
    this.#diagram.element,
    h(
      "div",
      { class: "beside" },
      this.#words,
      table(
        "How far the probabilities were from what came true",
        ["Loss", "#Model", "#Constant"],
        h(
          "tbody",
          {},
          LOSSES.map(([key, name]) => h("tr", {}, h("th", { scope: "row" }, name), this.#cells.get(key))),
        ),
      ),
      this.#waiting,
    ),
    h(
      "div",
      { class: "unseen" },
      table("Labels by the probability they were served with", ["Probability", "#Labels", "#Right"], this.#bins),
    ),
  );

  show({ calibration, unlabelled }) {
    this.#diagram.draw(calibration.bins);
    setText(this.#words, wordsFor(calibration.rounds));
    const means = lossesOfTheMean(calibration);
    for (const [key, [own, mean]] of this.#cells) {
      setText(own, real(calibration[key]));
      setText(mean, real(means[key]));
    }
    setText(this.#waiting, unlabelledInWords(unlabelled));
    this.#bins.replaceChildren(...calibration.bins.map(row));
  }
}

function wordsFor(rounds) {
  if (!rounds) return "No label that was served with a probability has been revealed yet.";
  return [
    `${plural(rounds, "label")} served with a probability have been revealed. Each dot is the share of them that was`,
    "right: in its box, if the probabilities can be trusted. The larger the dot, the more labels.",
    "The constant in the table is the share of right labels, served each time.",
  ].join(" ");
}

function row({ low, high, rounds, right_rate: right }) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, `${wholePercent(low)} to ${wholePercent(high)}`),
    h("td", {}, count(rounds)),
    h("td", {}, percent(right)),
  );
}
