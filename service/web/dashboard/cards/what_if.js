// What if the model had had other settings? A form, the job that tries them, and what has come of it.

import { getJson, modelPath, postJson, request } from "../lib/api.js";
import { card, h, setText } from "../lib/dom.js";
import { duration, percent, plural } from "../lib/format.js";
import { pause } from "../lib/timing.js";
import { WhatIfResult } from "./what_if_result.js";

/** Learners that a press of a button adds; all others can be written. */
export const LEARNERS = ["perceptron", "averaged", "pa1", "arow", "scw", "logistic", "auto"];
const GRID_MAX = 32;
const PLACE = "novikoff-replay ";

/** One object a line; an Error names the line that is none. */
export function parseGrid(text) {
  const grid = [];
  text.split("\n").forEach((line, i) => {
    if (!line.trim()) return;
    let settings = null;
    try {
      settings = JSON.parse(line);
    } catch {
      // told below
    }
    if (settings === null || typeof settings !== "object" || Array.isArray(settings))
      throw new Error(`Line ${i + 1} is not an object of JSON.`);
    grid.push(settings);
  });
  if (!grid.length) throw new Error("Enter the settings to try, one per line.");
  if (grid.length > GRID_MAX) throw new Error(`At most ${GRID_MAX} can be tried at once.`);
  return grid;
}

export function progressInWords({ progress, seconds_left: left }, many) {
  if (!progress) return "The history is being read.";
  const time = left === null ? "" : `, about ${duration(Math.max(1, left))} left`;
  return `${progress.settings} of ${plural(many, "setting")}, ${percent(progress.share, 0)} done${time}.`;
}

/** What a replay cannot change of a model's features. */
export function kept(features) {
  if (!features) return {};
  return { kind: features.kind, ...(features.text?.length ? { text: features.text } : {}) };
}

export class WhatIfCard {
  #name;
  #settings;
  #grid = h("textarea", {
    id: "what-if-grid",
    rows: "3",
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": "what-if-help",
    placeholder: '{"learner": {"algorithm": "arow"}}',
  });
  #chips = h("div", { class: "chips", role: "group", "aria-label": "Add to the list" });
  #start = h("button", { class: "primary", type: "submit" }, "Replay the history");
  #bar = h("progress", { max: "1", "aria-label": "Progress" });
  #said = h("span", { role: "status" });
  #progress = h(
    "div",
    { class: "progress", hidden: true },
    this.#bar,
    this.#said,
    h("button", { type: "button", class: "quiet", onclick: () => this.#cancel() }, "Cancel"),
  );
  #problem = h("p", { class: "error", role: "alert" });
  #form = h(
    "form",
    { onsubmit: (event) => this.#submit(event) },
    h("label", { for: "what-if-grid" }, "Settings to try instead of the model’s own, as JSON, one per line"),
    this.#grid,
    this.#chips,
    h("div", { class: "actions" }, this.#start),
  );
  #result;
  #running = null;
  #aborting = new AbortController();
  element;

  constructor(name, settings) {
    this.#name = name;
    this.#settings = settings;
    this.#result = new WhatIfResult({
      keep: (one, keepAs) => this.#run("replay", { settings: one, as: keepAs }),
      enter: (one, as) => this.#run("challengers", { ...one, name: as, start: "history" }),
    });
    this.element = card(
      "What if",
      "what-if",
      h(
        "p",
        { id: "what-if-help", class: "words" },
        "Replays the retained history with other settings. The model itself does not change.",
      ),
      this.#form,
      this.#progress,
      this.#problem,
      this.#result.element,
    );
    this.#offer();
    const known = sessionStorage.getItem(PLACE + name);
    if (known) this.#follow(known);
  }

  close() {
    this.#aborting.abort();
  }

  show({ algorithm, rounds }) {
    this.element.hidden = !rounds.revealed;
    for (const chip of this.#chips.children) chip.hidden = chip.dataset.algorithm === algorithm;
  }

  #offer() {
    const learners = LEARNERS.map((algorithm) => [algorithm, () => ({ learner: { algorithm } }), algorithm]);
    const scaled = () => ({ features: { ...kept(this.#settings.value?.settings.features), standardize: true } });
    for (const [text, settings, algorithm] of [...learners, ["standardized", scaled, null]])
      this.#chips.append(
        h(
          "button",
          { type: "button", "data-algorithm": algorithm, onclick: () => this.#add(settings()) },
          `+ ${text}`,
        ),
      );
  }

  #add(settings) {
    const before = this.#grid.value.trimEnd();
    this.#grid.value = `${before}${before ? "\n" : ""}${JSON.stringify(settings)}`;
    this.#grid.rows = Math.min(10, Math.max(3, this.#grid.value.split("\n").length));
  }

  async #submit(event) {
    event.preventDefault();
    try {
      await this.#run("replay", { grid: parseGrid(this.#grid.value) });
    } catch (error) {
      this.#tell(error);
    }
  }

  /** Start a job, and follow it to its end. */
  async #run(route, wanted) {
    setText(this.#problem, "");
    try {
      const job = await postJson(`${modelPath("models", this.#name)}/${route}`, wanted);
      sessionStorage.setItem(PLACE + this.#name, job.id);
      await this.#follow(job.id);
    } catch (error) {
      this.#tell(error);
    }
  }

  async #follow(id) {
    this.#running = id;
    this.#start.disabled = true;
    this.#progress.hidden = false;
    setText(this.#said, progressInWords({ progress: null }, 1));
    this.#bar.removeAttribute("value");
    try {
      const job = await follow(id, (each) => this.#showProgress(each), this.#aborting.signal);
      if (job) this.#end(job);
    } catch (error) {
      // Without a status there was no response: the service is away, or the page is being left. The job goes on.
      if (error.status) sessionStorage.removeItem(PLACE + this.#name);
      // A job that is unknown was lost with the process that ran it, or is long over.
      if (!this.#aborting.signal.aborted && error.status !== 404) this.#tell(error);
    }
    this.#running = null;
    this.#start.disabled = false;
    this.#progress.hidden = true;
  }

  #showProgress(job) {
    setText(this.#said, progressInWords(job, job.options.grid?.length ?? 1));
    if (job.progress) this.#bar.value = job.progress.share;
  }

  #end(job) {
    if (job.state === "done") {
      this.#result.show(job);
      return;
    }
    sessionStorage.removeItem(PLACE + this.#name);
    setText(this.#problem, job.state === "cancelled" ? "It was cancelled." : `It failed: ${job.error}`);
  }

  async #cancel() {
    try {
      if (this.#running) await cancel(this.#running);
    } catch (error) {
      this.#tell(error);
    }
  }

  #tell(error) {
    setText(this.#problem, error.message);
  }
}

// A job of the service, followed until it is over.

const LOOK_AGAIN_MS = 400;

/** Follow a job: `onChange(job)` at each look. The job when it is over; null if the signal came first. */
async function follow(id, onChange, signal) {
  const path = `jobs/${encodeURIComponent(id)}`;
  while (!signal.aborted) {
    const job = await getJson(path, { signal });
    if (signal.aborted) return null;
    onChange(job);
    if (job.state !== "running") return job;
    await pause(LOOK_AGAIN_MS, signal);
  }
  return null;
}

async function cancel(id) {
  await request(`jobs/${encodeURIComponent(id)}`, { method: "DELETE" });
}
