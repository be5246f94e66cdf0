// Making a model: a form that knows the catalogue of learners, as the service describes it in its OpenAPI document.

import { getJson, postJson } from "../lib/api.js";
import { h, setText } from "../lib/dom.js";
import { parseLabel } from "../lib/features.js";
import { Feed } from "../lib/feed.js";
import { sayFailure, showState } from "../lib/live.js";
import { loadRole } from "../lib/role.js";
import { refusal } from "../lib/widgets.js";

/** Show the form in `main`. */
export function openNewModel(main) {
  const view = new NewModel(main);
  view.open();
  return view;
}

class NewModel {
  #main;
  #isClosed = false;
  #isLoaded = false;
  #catalogue = null;
  #fields = [];
  #name = h("input", { id: "new-name", type: "text", required: true, maxlength: "128", autocomplete: "off", spellcheck: "false" });
  #algorithm = h("select", { id: "new-algorithm", onchange: () => this.#showParameters() });
  #about = h("p", { class: "help" });
  #parameters = h("div", { class: "new-parameters" });
  #kind = h("select", { id: "new-kind" });
  #labels = h("input", { id: "new-labels", type: "text", placeholder: "-1, 1", autocomplete: "off", spellcheck: "false" });
  #open = h("input", { id: "new-open", type: "checkbox", onchange: () => (this.#labels.disabled = this.#open.checked) });
  #error = h("p", { class: "error", role: "alert" });
  #head = h(
    "div",
    { class: "page-head" },
    h("p", { class: "crumb" }, h("a", { href: "#/" }, "All models")),
    h("h1", { tabindex: "-1" }, "New model"),
  );
  // Of no model at all: it tells whether the service is there.
  #feed = new Feed(
    `feed?${new URLSearchParams({ models: "" })}`,
    () => {},
    (state, seconds) => this.#stateIs(state, seconds),
  );

  constructor(main) {
    this.#main = main;
  }

  open() {
    this.#main.replaceChildren(h("div", { class: "new-model" }, this.#head));
    this.#feed.start();
    this.#load();
  }

  async #load() {
    try {
      const [role, document] = await Promise.all([loadRole(), getJson("openapi.json")]);
      if (this.#isClosed || this.#isLoaded) return;
      this.#isLoaded = true;
      if (!role.may("admin")) {
        this.#head.after(h("p", {}, "This API key cannot create models."));
        return;
      }
      this.#catalogue = catalogueOf(document);
      this.#name.value = role.prefix;
      this.#head.after(this.#form());
      this.#name.focus({ preventScroll: true });
    } catch (error) {
      // While the service is away, the line below the header says so; it is asked again on its return.
      if (error.status && !this.#isClosed) this.#main.replaceChildren(refusal(error));
    }
  }

  #stateIs(state, seconds) {
    showState(state, seconds);
    if (state === "live" && !this.#isLoaded) this.#load();
  }

  close() {
    this.#isClosed = true;
    this.#feed.stop();
  }

  #form() {
    this.#algorithm.replaceChildren(...this.#catalogue.algorithms.map(({ title }) => h("option", {}, title)));
    this.#kind.replaceChildren(...this.#catalogue.kinds.map((kind) => h("option", {}, kind)));
    this.#showParameters();
    return h(
      "form",
      { class: "card new-form", onsubmit: (event) => this.#make(event) },
      h("label", { for: "new-name" }, "Name"),
      this.#name,
      h("label", { for: "new-algorithm" }, "Learner"),
      this.#algorithm,
      this.#about,
      this.#parameters,
      h("label", { for: "new-labels" }, "Labels, comma-separated"),
      this.#labels,
      h("label", { class: "check" }, this.#open, " Classes appear as they are revealed"),
      h("label", { for: "new-kind" }, "Features"),
      this.#kind,
      h("p", { class: "help" }, "dense: lists of numbers; named and hashed: names with values."),
      h("div", { class: "actions" }, h("button", { class: "primary", type: "submit" }, "Create the model")),
      this.#error,
    );
  }

  #showParameters() {
    const { description, properties } = this.#catalogue.algorithms[this.#algorithm.selectedIndex];
    setText(this.#about, description ?? "");
    this.#fields = Object.entries(properties)
      .filter(([name]) => name !== "algorithm")
      .map(([name, schema]) => parameterField(name, schema));
    this.#parameters.replaceChildren(...this.#fields.map(({ element }) => element));
  }

  async #make(event) {
    event.preventDefault();
    setText(this.#error, "");
    const learner = { algorithm: this.#algorithm.value };
    for (const { name, read } of this.#fields) if (read() !== undefined) learner[name] = read();
    const typed = this.#labels.value.split(",").map((label) => label.trim()).filter(Boolean);
    const body = { model: this.#name.value.trim(), learner, features: this.#kind.value };
    if (this.#open.checked) body.labels = null;
    else if (typed.length) body.labels = typed.map((label) => parseLabel(label, []));
    try {
      const made = await postJson("models", body);
      location.hash = `#/models/${encodeURIComponent(made.model)}`;
    } catch (error) {
      sayFailure(this.#error, error);
    }
  }
}

// The fields of the form for a new model, made of the service's own description of its settings.

/** {algorithms: [{title, description, properties}], kinds: [name]} as an OpenAPI document describes them. */
function catalogueOf({ components }) {
  const { learner, features } = components.schemas.NewModel.properties;
  const kinds = features.anyOf.find((schema) => "enum" in schema).enum;
  return { algorithms: learner.oneOf.filter(({ title }) => title), kinds };
}

/** {name, element, read}: a field for a parameter; `read` gives undefined where the default is meant. */
function parameterField(name, schema) {
  const id = `new-parameter-${name}`;
  const { description = "", enum: choices } = schema;
  const input = choices ? choiceOf(id, schema) : numberOf(id, schema);
  const element = h(
    "div",
    { class: "new-parameter" },
    h("label", { for: id }, name),
    input,
    h("p", { class: "help" }, description.replaceAll("`", "")),
  );
  const read = () => {
    if (choices) return choices[input.selectedIndex] === schema.default ? undefined : choices[input.selectedIndex];
    return input.value.trim() === "" ? undefined : Number(input.value);
  };
  return { name, element, read };
}

function choiceOf(id, { enum: choices, default: usual }) {
  return h(
    "select",
    { id },
    choices.map((choice) => h("option", { selected: choice === usual }, String(choice ?? "none"))),
  );
}

function numberOf(id, { default: usual }) {
  return h("input", { id, type: "text", inputmode: "decimal", placeholder: String(usual ?? "none"), autocomplete: "off" });
}
