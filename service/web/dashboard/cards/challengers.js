// The leaderboard of a model with challengers: how each has fared beside the champion, the evidence, and a way to promote one.

import { modelPath, postJson } from "../lib/api.js";
import { card, h, setText, table } from "../lib/dom.js";
import { leagueAddress } from "../lib/entrants.js";
import { count, percent, plural, real } from "../lib/format.js";
import { scrollArea } from "../lib/widgets.js";

const HEADS = ["Learner", "Algorithm", "#Rounds", "#Error", "#Difference", "#Won : lost", "#Evidence", "#Confidence", ""];

/** A share with the interval that it is in. */
export function within(value, interval) {
  if (value === null) return "–";
  return interval ? `${percent(value)} (${percent(interval.low)} to ${percent(interval.high)})` : percent(value);
}

/** A confidence, which is never all of it; it is 0 as long as the evidence is not for the challenger. */
export function confidenceText(confidence) {
  if (confidence === 0) return "none yet";
  return confidence > 0.9999 ? "> 99.99%" : percent(confidence);
}

/** What the evidence comes to, in a sentence. */
export function evidenceInWords({ champion, line, evidence_needed: needed, promotions }) {
  if (!line.length) return `${champion.name} serves, and no challenger is beside it.`;
  const best = line.reduce((a, b) => (b.confidence > a.confidence ? b : a));
  const found =
    best.confidence > 0.5
      ? `${best.name} is better than ${champion.name} with a confidence of ${confidenceText(best.confidence)}, at any time you look.`
      : `There is no proof yet that a challenger is better than ${champion.name}.`;
  const rule =
    needed === null
      ? "No challenger is promoted automatically."
      : `A challenger is promoted automatically with this evidence: ${line.map((one) => `${one.name} ${real(one.evidence_needed)}`).join(", ")}.`;
  return `${found} ${rule}${promotions ? ` There ${promotions === 1 ? "was" : "were"} ${plural(promotions, "promotion")}.` : ""}`;
}

/** A line of the table, which stays the same element: a button that is replaced loses clicks and focus. */
class Line {
  #cells = HEADS.slice(1, -1).map((head) => h("td", { class: head.startsWith("#") ? "number" : null }));
  #promote;
  element;

  constructor(name, promote) {
    this.#promote = promote
      ? h("button", { type: "button", "data-needs": "admin", "aria-label": `Promote ${name}`, onclick: () => promote(name) }, "Promote")
      : null;
    const head = h("th", { scope: "row" }, promote ? name : `${name} (serves)`);
    this.element = h("tr", { class: promote ? null : "leads" }, head, this.#cells, h("td", {}, this.#promote));
  }

  show(texts, warm) {
    texts.forEach((text, i) => setText(this.#cells[i], text));
    this.#cells[0].title = warm ? warmInWords(warm) : "";
  }
}

export class ChallengersCard {
  #model;
  #lines = new Map();
  #body = h("tbody");
  #words = h("p", { class: "words" });
  #problem = h("p", { class: "words", role: "alert" });
  #compare = h("a", {}, "Compare them in columns");
  element = card(
    "Challengers",
    "wide challengers",
    scrollArea("The champion and its challengers", "", table("The champion and its challengers", HEADS, this.#body)).element,
    this.#words,
    h("p", { class: "words" }, this.#compare),
    this.#problem,
  );

  constructor(model) {
    this.#model = model;
  }

  show({ challengers, algorithm }) {
    this.element.hidden = !challengers;
    if (!challengers) return;
    const { champion, line } = challengers;
    const shown = [
      [champion.name, false, [algorithm, ...figures(champion), "–", "–", "–", "–"]],
      ...line.map((one) => [one.name, true, [named(one), ...figures(one), ...against(one)], one.warm]),
    ];
    const kept = new Map(shown.map(([name, isChallenger]) => [`${isChallenger} ${name}`, null]));
    for (const [name, isChallenger, texts, warm] of shown) {
      const key = `${isChallenger} ${name}`;
      const row = this.#lines.get(key) ?? new Line(name, isChallenger ? (one) => this.#promote(one) : null);
      row.show(texts, warm);
      kept.set(key, row);
    }
    const isSame = [...kept.keys()].join() === [...this.#lines.keys()].join();
    this.#lines = kept;
    if (!isSame) this.#body.replaceChildren(...[...kept.values()].map(({ element }) => element));
    setText(this.#words, evidenceInWords(challengers));
    this.#compare.hidden = !line.length;
    this.#compare.href = leagueAddress(this.#model, challengers);
  }

  async #promote(challenger) {
    setText(this.#problem, "");
    try {
      await postJson(`${modelPath("models", this.#model)}/promote`, { challenger });
    } catch (error) {
      setText(this.#problem, error.message);
    }
  }
}

/** The algorithm of a challenger, and whether it had learned the history before it entered. */
function named({ algorithm, warm }) {
  return warm ? `${algorithm}, warm` : algorithm;
}

function warmInWords({ rounds, mistakes, missed }) {
  const not = missed ? `, but not ${plural(missed, "round")} just before it entered` : "";
  return `It had learned ${plural(rounds, "round")} of the history with ${plural(mistakes, "mistake")}${not}. None of them counts here.`;
}

function figures({ rounds, error_rate: rate, error_rate_interval: interval }) {
  return [count(rounds), within(rate, interval)];
}

function against({ difference, difference_interval: interval, won, lost, evidence, confidence }) {
  return [within(difference, interval), `${count(won)} : ${count(lost)}`, real(evidence), confidenceText(confidence)];
}
