// What was changed about the past, as lines of the audit trail say it.

import { count, labelText, plural } from "./format.js";

/** By the kind of the event. */
export const CORRECTIONS = {
  corrected: ({ label, former, reason }) => {
    const change =
      label === null
        ? `a round with the label ${labelText(former)} was discarded`
        : `the label ${labelText(former)} became ${labelText(label)}`;
    return reason ? `${change} (${reason})` : change;
  },
  voided: () => "a prediction was discarded",
  forgotten: ({ rounds }) => `${plural(rounds, "round")} to be as if never there`,
  purged: () => "what was forgotten is gone from the disk",
  erased: ({ rounds }) => `${plural(rounds, "round")} forgotten`,
  rebuilt: ({ since }) => `made anew from its corrected history, from version ${count(since)} on`,
};
