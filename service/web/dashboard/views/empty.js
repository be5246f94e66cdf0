// No models yet: what this is, and the first round by curl.

import { h } from "../lib/dom.js";
import { currentKey } from "../lib/key.js";

export function emptyState() {
  const origin = new URL(".", document.baseURI).href.replace(/\/$/, "");
  const key = currentKey() ? [`-H "Authorization: Bearer $KEY"`] : [];
  const post = (path, body) =>
    [`curl -s ${origin}${path}`, `-H 'Content-Type: application/json'`, ...key, `-d '${body}'`].join(
      " \\\n  ",
    );
  return h(
    "div",
    { class: "empty" },
    h("h1", { tabindex: "-1" }, "No models yet"),
    h(
      "p",
      { class: "lead" },
      "A model begins with the first prediction you ask it for. It learns each time you reveal what was true,",
      " and this page follows along.",
    ),
    h(
      "ol",
      { class: "steps" },
      step(
        "Ask for a prediction.",
        "The model is created with it.",
        post("/predict", '{"model": "spam", "features": [1.0, 2.5], "id": "first"}'),
      ),
      step(
        "Reveal the truth,",
        "now or days later, by the prediction’s id.",
        post("/feedback", '{"prediction_id": "first", "label": -1}'),
      ),
      step(
        "Or do both at once,",
        "when the label is known already.",
        post("/learn", '{"model": "spam", "features": [0.5, -1.0], "label": 1}'),
      ),
    ),
    h("p", { class: "waiting" }, "This page updates as soon as there is a model."),
  );
}

function step(first, then, command) {
  return h("li", {}, h("p", {}, h("strong", {}, first), ` ${then}`), copyable(command));
}

function copyable(text) {
  const code = h("code", {}, text);
  const button = h("button", { type: "button", class: "copy" }, "Copy");
  const said = h("span", { class: "unseen", role: "status" });
  button.addEventListener("click", async () => {
    const done = await copy(text, code);
    button.textContent = done ? "Copied" : "Press Ctrl+C";
    said.textContent = done ? "Copied" : "Selected; press Control C to copy";
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  return h(
    "div",
    { class: "command" },
    h("pre", { tabindex: "0", "aria-label": "Command" }, code),
    button,
    said,
  );
}

/** Copy, or at least select: browsers give the clipboard to secure pages only. */
async function copy(text, element) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(element);
    return false;
  }
}
