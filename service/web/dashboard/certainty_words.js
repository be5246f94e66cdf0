// How sure the model is of one prediction, as sentences.

import { count, labelText, percent } from "./format.js";

const LABELS_MAX = 12;

/** Sentences about the probability, the set and the question of an answer of /predict, as far as it has them. */
export function certaintyInWords(made) {
  return [
    made.probability === null
      ? "How probable that is, it cannot tell before its first reveal."
      : `By what came of such predictions, that is right with a probability of ${percent(made.probability, 1)}.`,
    "set" in made ? setInWords(made.set) : null,
    "ask_probability" in made ? askInWords(made.ask, made.ask_probability) : null,
  ].filter((words) => words !== null);
}

function setInWords(labels) {
  if (labels === null) return "No label can be ruled out, not even one that has never been seen.";
  if (!labels.length)
    return "Every label is ruled out: one of the misses that make up for sets that held too much.";
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
