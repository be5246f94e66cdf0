// The experts of a panel: who leads, how each has fared, and how much the vote can have lost. Models of `auto` have it.

import { Chart, Legend } from "../charts/chart.js";
import { EMPTY_ROUNDS, topOf } from "../charts/curve.js";
import { card, h, s, setText, table } from "../lib/dom.js";
import { atMost, count, percent, percentTick, plural, real, shortCount } from "../lib/format.js";

const COLOURS = 8;
const BAND = { width: 600, height: 14 };

/** The class of an expert's colour; they begin anew after the last one. */
function colour(index) {
  return `expert-${index % COLOURS}`;
}

/** [[round, share of mistakes since the point before], …] of one expert. */
export function errorBetween(rounds, mistakes) {
  return rounds.map((round, i) => {
    const [from, before] = i ? [rounds[i - 1], mistakes[i - 1]] : [0, 0];
    return [round, (mistakes[i] - before) / (round - from)];
  });
}

/** Stretches in which the same expert led: [{leader, from, to}]. */
export function stretches({ rounds, leaders }) {
  const found = [];
  leaders.forEach((leader, i) => {
    if (found.at(-1)?.leader === leader) found.at(-1).to = rounds[i];
    else found.push({ leader, from: found.at(-1)?.to ?? 0, to: rounds[i] });
  });
  return found;
}

/** How much the vote lost against its best expert, and how much it can have lost. */
export function regretInWords({ rounds, regret, regret_bound: bound, mistake_bound: most, panel }) {
  if (!rounds) return "No label has been revealed yet: all experts weigh the same.";
  const best = panel.reduce((a, b) => (b.mistakes < a.mistakes ? b : a));
  const than = `${best.name}, the best of them with ${plural(best.mistakes, "mistake")}`;
  const lost =
    regret < 0
      ? `The weight that erred adds up to ${real(-regret)} less than the mistakes of ${than}.`
      : `The weight that erred adds up to ${real(regret)} more than the mistakes of ${than}.`;
  return `${lost} On any stream it is at most ${atMost(bound)} more, and the vote errs at most ${atMost(most)} times.`;
}

export class ExpertsCard {
  #chart = new Chart();
  #legend = new Legend();
  #band = s("svg", { class: "leaders", role: "img", preserveAspectRatio: "none" });
  #rows = h("tbody");
  #words = h("p", { class: "words" });
  element = card(
    "Experts",
    "experts",
    h(
      "div",
      { class: "over-time" },
      this.#legend.element,
      this.#chart.element,
      h("p", { class: "caption" }, "Leading expert"),
      this.#band,
    ),
    h("div", { class: "beside" }, table("The experts and their votes", ["Expert", "#Weight", "#Mistakes"], this.#rows), this.#words),
  );

  show({ experts }) {
    this.element.hidden = !experts;
    if (!experts) return;
    const { panel, leader, history, rounds } = experts;
    this.#rows.replaceChildren(...panel.map((expert, i) => row(expert, i, expert.name === leader)));
    setText(this.#words, regretInWords(experts));
    this.#drawErrors(panel, history, rounds, leader);
    this.#drawLeaders(panel, history);
  }

  #drawErrors(panel, history, rounds, leader) {
    const series = panel.map(({ name }, i) => ({
      name,
      kind: colour(i),
      points: errorBetween(history.rounds, history.mistakes[i]),
    }));
    const yMax = topOf(
      series.map(({ points }) => points),
      rounds,
    );
    this.#legend.show(series);
    this.#chart.draw({
      series,
      xMax: history.rounds.at(-1) || EMPTY_ROUNDS,
      yMax,
      nameX: "Round",
      formatX: shortCount,
      formatY: percentTick,
      leastX: 1,
      formatValue: { x: count, y: percent },
      title: "The error of each expert",
      text: `${leader} weighs most after ${plural(rounds, "round")}.`,
    });
  }

  #drawLeaders(panel, history) {
    const found = stretches(history);
    const last = history.rounds.at(-1) ?? 1;
    const places = new Map(panel.map(({ name }, i) => [name, i]));
    this.#band.setAttribute("viewBox", `0 0 ${BAND.width} ${BAND.height}`);
    const words = found.map(({ leader, to }) => `${leader} until round ${count(to)}`).join(", ");
    this.#band.setAttribute("aria-label", found.length ? `Leading expert: ${words}.` : "No expert has led yet.");
    this.#band.replaceChildren(
      ...found.map(({ leader, from, to }) =>
        s(
          "rect",
          {
            class: colour(places.get(leader)),
            x: (BAND.width * from) / last,
            width: (BAND.width * (to - from)) / last,
            height: BAND.height,
          },
          s("title", {}, `${leader}, round ${count(from + 1)} to ${count(to)}`),
        ),
      ),
    );
  }
}

function row({ name, weight, mistakes }, index, leads) {
  return h(
    "tr",
    { class: leads ? "leads" : null },
    h("th", { scope: "row" }, h("span", { class: `dot ${colour(index)}`, "aria-hidden": "true" }), leads ? `${name} (leads)` : name),
    h("td", { class: "number" }, percent(weight, 1)),
    h("td", { class: "number" }, count(mistakes)),
  );
}
