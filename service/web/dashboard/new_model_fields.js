// The fields of the form for a new model, made of the service's own description of its settings.

import { h } from "./dom.js";

/** {algorithms: [{title, description, properties}], kinds: [name]} as an OpenAPI document describes them. */
export function catalogueOf({ components }) {
  const { learner, features } = components.schemas.NewModel.properties;
  const kinds = features.anyOf.find((schema) => "enum" in schema).enum;
  return { algorithms: learner.oneOf.filter(({ title }) => title), kinds };
}

/** {name, element, read}: a field for a parameter; `read` gives undefined where the default is meant. */
export function parameterField(name, schema) {
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
