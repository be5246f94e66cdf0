// What was changed about the past, as lines of the audit trail say it.

import { count, labelText, plural } from "./format.js";

/** By the kind of the event. What an event does not say is left out. */
export const CORRECTIONS = {
  feedback_corrected: (event) => {
    const was = event.old_label ?? event.former ?? event.was;
    const label = event.new_label ?? event.label;
    const change = was === undefined ? `it was ${labelText(label)}` : `${labelText(was)} became ${labelText(label)}`;
    return `a label was corrected: ${change}${because(event)}`;
  },
  prediction_voided: (event) => `a prediction does not count any more${because(event)}`,
  examples_forgotten: (event) =>
    `${event.count === undefined ? "examples" : plural(event.count, "example")} were forgotten${because(event)}`,
  model_rebuilt: ({ version }) =>
    `the model was made anew from its corrected history${version === undefined ? "" : `, up to version ${count(version)}`}`,
};

function because({ reason }) {
  return reason ? ` (${reason})` : "";
}
