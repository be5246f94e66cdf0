// Sets of labels, and labels that are asked for: cards of the models that have them.

import { card, h, setText } from "../lib/dom.js";
import { atMost, count, labelText, percent, plain, plural, real, wholePercent } from "../lib/format.js";

/** Large figures with names, above sentences. */
class FiguresCard {
  #values;
  #words;
  element;

  constructor(title, className, names, sentences) {
    this.#values = names.map(() => h("dd"));
    this.#words = Array.from({ length: sentences }, () => h("p", { class: "words" }));
    this.element = card(
      title,
      className,
      h(
        "dl",
        { class: "quantiles pairs" },
        names.map((name, i) => h("div", {}, h("dt", {}, name), this.#values[i])),
      ),
      this.#words,
    );
  }

  fill(values, sentences) {
    this.#values.forEach((element, i) => setText(element, values[i]));
    this.#words.forEach((element, i) => setText(element, sentences[i]));
  }
}

export class SetsCard extends FiguresCard {
  constructor() {
    const names = ["Contained the true label", "Wanted", "Labels in a set", "Sets of one label"];
    super("Sets of labels", "sets", names, 2);
  }

  show({ sets }) {
    this.element.hidden = !sets;
    if (!sets) return;
    this.fill(
      [percent(sets.coverage), wholePercent(sets.wanted), real(sets.mean_size), percent(sets.single_rate)],
      sets.rounds ? setsInWords(sets) : ["No set has met its true label yet.", ""],
    );
  }
}

function setsInWords({ rounds, distance_max: distance, single_rate: single, single_error_rate: wrong }) {
  return [
    distance < 1
      ? `After ${plural(rounds, "round")} the share that held the true label is at most ${points(distance)} from what is wanted, on any stream.`
      : `After ${plural(rounds, "round")} nothing is proven yet of how far the share can be from what is wanted.`,
    single ? `Of the sets of one label, ${percent(wrong)} were wrong.` : "No set had just one label.",
  ];
}

function points(share) {
  return `${(100 * share).toFixed(2)} percentage points`;
}

export class AskCard extends FiguresCard {
  constructor() {
    super("Labels asked for", "asking", ["Asked for", "Predictions", "Labels", "Estimated error"], 2);
  }

  show({ ask, bound }) {
    this.element.hidden = !ask;
    if (!ask) return;
    this.fill(
      [percent(ask.asked_rate), count(ask.predictions), count(ask.asked), percent(ask.error_rate)],
      [estimateInWords(ask), expectedInWords(ask.bound, bound.gamma)],
    );
  }
}

/** Where the error of all predictions is, by the labels that were asked for. */
export function estimateInWords({ predictions, error_rate_interval: interval }) {
  if (!predictions) return "No labels have been asked for yet.";
  if (!interval) return "The accuracy of that estimate is unknown.";
  if (interval.low <= 0 && interval.high >= 1)
    return "Too few labels to estimate how many predictions are wrong.";
  return [
    `By the labels that were asked for, the chance of a mistake over all ${plural(predictions, "prediction")}`,
    `is between ${percent(interval.low)} and ${percent(interval.high)}`,
    `with ${wholePercent(interval.confidence)} confidence.`,
  ].join(" ");
}

/** The bound on the mistakes to be expected, asked for or not. */
function expectedInWords({ verdict, why, expected_mistakes: most }, margin) {
  if (verdict === "not_applicable")
    return `No theorem bounds the mistakes to be expected: ${plain(why ?? "it does not apply")}.`;
  if (verdict === "exceeded") return `The bound on the mistakes to be expected is void: ${plain(why)}.`;
  if (most === null)
    return why ? `No bound on the mistakes to be expected: ${plain(why)}.` : "";
  return [
    `If a plane separates the stream with the declared margin of ${real(margin)}, at most ${atMost(most)} mistakes`,
    "are to be expected, asked for or not.",
  ].join(" ");
}

// How sure the model is of one prediction, as sentences.

const LABELS_MAX = 12;

/** Sentences about the probability, the set and the question of an answer of /predict, as far as it has them. */
export function certaintyInWords(made) {
  return [
    made.probability === null
      ? "It estimates no probability before its first reveal."
      : `By what came of such predictions, that is right with a probability of ${percent(made.probability, 1)}.`,
    "set" in made ? setInWords(made.set) : null,
    "ask_probability" in made ? askInWords(made.ask, made.ask_probability) : null,
  ].filter((words) => words !== null);
}

function setInWords(labels) {
  if (labels === null) return "No label can be ruled out, not even an unseen one.";
  if (!labels.length)
    return "Every label is ruled out: a miss that balances sets that contained too much.";
  const shown = labels.slice(0, LABELS_MAX).map(labelText).join(", ");
  const more = labels.length - LABELS_MAX;
  return `Not ruled out: ${shown}${more > 0 ? ` and ${count(more)} more` : ""}.`;
}

function askInWords(isAsked, probability) {
  const chance = percent(probability, 1);
  if (isAsked === undefined) return `Its label would be asked for with a chance of ${chance}.`;
  return isAsked
    ? `Its label is asked for, as happens with a chance of ${chance}.`
    : `Its label need not be revealed; it had a chance of ${chance} of being asked for.`;
}
