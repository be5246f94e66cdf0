// The weights that matter most, read again as the model moves on.

import { WeightBars } from "../charts/weight_bars.js";
import { getJson, modelPath } from "../lib/api.js";
import { card, h, setText } from "../lib/dom.js";
import { count, labelText, plural } from "../lib/format.js";
import { Throttle } from "../lib/timing.js";

const SHOWN = 14;
const EVERY_MS = 1500;
const PAST_EVERY_MS = 150;
const SLOW = 20;

export class WeightsCard {
  #name;
  #bars = new WeightBars("The largest weights");
  #words = h("p", { class: "words" });
  #choice = h("select", { "aria-label": "Class", onchange: () => this.#draw() });
  #read = new Throttle(() => this.load(), EVERY_MS);
  #wanted = null;
  #shape = null;
  #size = 0;
  /** The weights as last read: see weights.js. */
  current = null;
  /** The version whose weights are shown; null for those of now. */
  at = null;
  element;

  constructor(name) {
    this.#name = name;
    this.element = card("Largest weights", "half", this.#choice, this.#words, this.#bars.element);
  }

  close() {
    this.#read.stop();
  }

  show({ version, updates, features }) {
    this.#size = features.weights;
    const wanted = `${version}:${updates}:${this.at}`;
    if (wanted === this.#wanted) return;
    this.#wanted = wanted;
    this.#read.ask();
  }

  /** Read the weights now. Large models are read less often: a reading may take a twentieth of the time. */
  async load() {
    const began = performance.now();
    try {
      this.current = await loadWeights(this.#name, SHOWN, this.at);
    } catch {
      return; // The feed will ask again.
    }
    const every = this.at === null ? EVERY_MS : PAST_EVERY_MS;
    this.#read.ms = Math.max(every, SLOW * (performance.now() - began));
    this.#draw();
  }

  #draw() {
    const { classes, expert } = this.current;
    const shape = JSON.stringify(classes.map(({ label }) => label));
    if (shape !== this.#shape) {
      this.#shape = shape;
      const chosen = this.#choice.selectedIndex;
      this.#choice.replaceChildren(...classes.map(({ label }) => h("option", {}, labelText(label))));
      this.#choice.selectedIndex = Math.max(0, chosen);
      this.#choice.hidden = classes.length < 2;
    }
    const chosen = classes[Math.max(0, this.#choice.selectedIndex)] ?? {
      label: null,
      against: null,
      weights: [],
    };
    const { label, against, weights } = chosen;
    const shown = largest(weights, SHOWN);
    const whose = expert === null ? "" : `Those of ${expert}, the expert that weighs most. `;
    setText(this.#words, whose + words(label, against, shown.length, this.#size));
    this.#bars.show(shown.map((each) => ({ key: `${typeof each.feature} ${each.feature}`, ...each })));
  }
}

function words(label, against, shown, size) {
  if (!shown) return "All weights are zero.";
  const left = against === null ? "against it" : `for ${labelText(against)}`;
  const share =
    shown === SHOWN && size > shown ? `The ${count(shown)} largest of ${plural(size, "weight")}. ` : "";
  return `${share}To the right they speak for ${labelText(label)}, to the left ${left}.`;
}

// GET /models/{model}/weights in one shape, whatever the model:
// {isWhole, expert, classes: [{label, against, weights: [{feature, weight}]}]}. A feature is a place or a name;
// that of the bias is null, since a name may be "bias" too.
// `label` is what a positive weight speaks for; `against` what a negative one does, if there are but two.

/** The `most` weights of each class that are farthest from zero, the bias among them; now or `at` a version. */
export async function loadWeights(model, most, at = null) {
  const asked = new URLSearchParams({ largest: most, ...(at === null ? {} : { at }) });
  const answer = await getJson(`${modelPath("models", model)}/weights?${asked}`);
  return readWeights(answer, most);
}

function readWeights({ labels, classes, expert = null }, most) {
  return {
    expert,
    isWhole: classes.every(({ weights }) => weights.length < most),
    classes: classes.map(({ label, weights, bias }) => ({
      label: label ?? labels[1],
      against: label === null ? labels[0] : null,
      weights: bias === null ? weights : [...weights, { feature: null, weight: bias }],
    })),
  };
}

/** The `most` that are farthest from zero, the farthest first. */
function largest(weights, most) {
  const isMoved = weights.filter(({ weight }) => weight !== 0);
  return isMoved.sort((a, b) => Math.abs(b.weight) - Math.abs(a.weight)).slice(0, most);
}

/** What moved from one reading to the next, the largest move first: [{label, feature, before, weight}]. */
export function moves(before, after, most) {
  const moved = [];
  after.classes.forEach(({ label, weights }, i) => {
    const old = new Map(before.classes[i]?.weights.map((each) => [each.feature, each.weight]));
    for (const { feature, weight } of weights) {
      if (!old.has(feature) && !before.isWhole) continue;
      const was = old.get(feature) ?? 0;
      if (was !== weight) moved.push({ label, feature, before: was, weight });
    }
  });
  return moved.sort((a, b) => Math.abs(b.weight - b.before) - Math.abs(a.weight - a.before)).slice(0, most);
}
