// What the model is made of.

import { getJson, modelPath } from "../lib/api.js";
import { card, h } from "../lib/dom.js";
import { count, labelText } from "../lib/format.js";

export class SettingsCard {
  #name;
  #list = h("dl", { class: "facts settings" });
  #asked = null;
  /** What /models says of this model, once it is known: settings, dimension. */
  value = null;
  element = card("Settings", "side", this.#list);

  constructor(name) {
    this.#name = name;
  }

  /** They change when challengers come, go or are promoted, and when a model is created again under the same name. */
  async show({ created_at: created, challengers }) {
    const { champion, line = [], evidence_needed: needed } = challengers ?? {};
    const asked = JSON.stringify([created, champion?.name, line.map(({ name }) => name), needed]);
    if (this.#asked === asked) return;
    this.#asked = asked;
    try {
      this.value = await getJson(modelPath("models", this.#name));
      const { settings, dimension } = this.value;
      const facts = flatten({
        ...settings,
        // Their own settings are beside the champion's in "Compare".
        challengers: Object.keys(settings.challengers ?? {}),
        labels: settings.labels ?? "as they are revealed",
        ask: settings.ask?.b === null ? "auto" : settings.ask,
        dimension: dimension || null,
      });
      this.#list.replaceChildren(
        ...facts.map(([key, value]) => h("div", {}, h("dt", {}, key), h("dd", {}, value))),
      );
    } catch {
      this.#asked = null;
    }
  }
}

/** {learner: {eta0: 1}} → [["learner.eta0", "1"]] */
function flatten(settings, prefix = "") {
  return Object.entries(settings).flatMap(([key, value]) => {
    if (value !== null && typeof value === "object" && !Array.isArray(value))
      return flatten(value, `${prefix}${key}.`);
    return value === null || value.length === 0 ? [] : [[prefix + key.replaceAll("_", " "), asText(value)]];
  });
}

function asText(value) {
  if (Array.isArray(value)) return value.map(labelText).join(", ");
  if (Number.isInteger(value)) return count(value);
  return typeof value === "boolean" ? (value ? "yes" : "no") : labelText(value);
}
