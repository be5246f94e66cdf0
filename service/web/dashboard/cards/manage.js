// What can be done with a model as a whole: take it along, begin anew, delete it. Each only for keys that may.

import { getJson, modelPath, request } from "../lib/api.js";
import { card, h, setText } from "../lib/dom.js";

export class ManageCard {
  #name;
  #said = h("p", { class: "words", role: "status" });
  #error = h("p", { class: "error", role: "alert" });
  element;

  constructor(name) {
    this.#name = name;
    const file = name.replaceAll(/[^\w.-]/g, "_");
    this.element = card(
      "Manage",
      "manage",
      h(
        "div",
        { class: "actions" },
        this.#button("Export", async () => {
          const answer = await request(`${modelPath("models", name)}/export`);
          save(`${file}.json`, await answer.blob(), "application/json");
          return "The file contains the whole model; PUT /models/… imports it.";
        }),
        this.#button("Statistics as CSV", async () => {
          const stats = await getJson(modelPath("stats", name));
          save(`${file}-statistics.csv`, asCsv([["statistic", "value"], ...flat(stats)]), "text/csv");
          return "The file has one line for each number of /stats.";
        }),
      ),
      h("div", { class: "manage-grave", "data-needs": "admin" }, this.#reset(), this.#delete()),
      this.#said,
      this.#error,
    );
  }

  /** Nothing of it is in the statistics. */
  show() {}

  #reset() {
    const path = `${modelPath("models", this.#name)}/reset`;
    return this.#named("Reset", "forgets its weights and statistics; its settings stay", async () => {
      await request(path, { method: "POST" });
      return "The model was reset.";
    });
  }

  #delete() {
    return this.#named("Delete", "deletes the model and its history", async () => {
      await request(modelPath("models", this.#name), { method: "DELETE" });
      return "The model was deleted.";
    });
  }

  /** What cannot be undone is done when the model's name has been typed. */
  #named(word, does, work) {
    const id = `manage-${word.toLowerCase()}`;
    const button = h("button", { type: "submit", class: "grave", disabled: true }, word);
    const input = h("input", {
      id,
      type: "text",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => (button.disabled = input.value !== this.#name),
    });
    const submit = async (event) => {
      event.preventDefault();
      if (input.value !== this.#name) return;
      await this.#attempt(work);
      input.value = "";
      button.disabled = true;
    };
    const words = `${word}: ${does}. Type the model’s name to confirm.`;
    return h("form", { onsubmit: submit }, h("label", { for: id }, words), h("div", { class: "actions" }, input, button));
  }

  #button(text, work) {
    return h("button", { type: "button", onclick: () => this.#attempt(work) }, text);
  }

  async #attempt(work) {
    setText(this.#error, "");
    setText(this.#said, "");
    try {
      setText(this.#said, await work());
    } catch (error) {
      setText(this.#error, error.message);
    }
  }
}

// Giving people files: an answer of the service, or a table as CSV.

/** Offer some text or bytes as a file. */
function save(name, content, type) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

/** Rows of values as CSV. A text that a spreadsheet would take for a formula gets an apostrophe. */
function asCsv(rows) {
  return rows.map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

function cell(value) {
  if (value === null || value === undefined) return "";
  const text = typeof value === "string" && /^[=+@\t\r-]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Statistics as rows of a name and a value: {rounds: {pending: 1}} → [["rounds.pending", 1]]. */
function flat(value, name = "") {
  if (value === null || typeof value !== "object") return [[name, value]];
  const at = (key) => (name ? `${name}.${key}` : String(key));
  return Object.entries(value).flatMap(([key, each]) => flat(each, at(key)));
}
