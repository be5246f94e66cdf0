// One model: everything /stats says about it, as it happens.

import { BoundCard } from "../cards/bound.js";
import { AskCard, SetsCard } from "../cards/certainty.js";
import { ChallengersCard } from "../cards/challengers.js";
import { ConfusionCard } from "../cards/confusion.js";
import { ErrorCard } from "../cards/error.js";
import { ExpertsCard } from "../cards/experts.js";
import { BaselinesCard, DelayCard, WindowsCard } from "../cards/figures.js";
import { ManageCard } from "../cards/manage.js";
import { ReliabilityCard } from "../cards/reliability.js";
import { SettingsCard } from "../cards/settings.js";
import { TrailCard } from "../cards/trail.js";
import { TryCard } from "../cards/try.js";
import { VersionsBar } from "../cards/versions.js";
import { WeightsCard } from "../cards/weights.js";
import { WhatIfCard } from "../cards/what_if.js";
import { getJson, modelPath } from "../lib/api.js";
import { h, setText } from "../lib/dom.js";
import { Feed } from "../lib/feed.js";
import { ago, count, dateTime, percent, plural } from "../lib/format.js";
import { showState } from "../lib/live.js";
import { notice, refusal, Tiles } from "../lib/widgets.js";
import { compareLink } from "./compare.js";

// The windows of a minute, an hour and a day move on even if nothing happens.
const QUIET_MS = 10000;

/** Show a model in `main`; `back` is the address of the fleet it was chosen from. */
export function openModel(main, name, back) {
  const view = new ModelView(main, name, back);
  view.open();
  return view;
}

class ModelView {
  #main;
  #name;
  #back;
  #feed;
  #timer = null;
  #shownAt = -Infinity;
  #stats = null;
  #isClosed = false;
  #header;
  #tiles = new Tiles("This model", [
    "Recent error",
    "Error rate",
    "Mistakes",
    "Rounds",
    "Updates",
    "Pending",
  ]);
  #cards;
  #weights;
  #versions;
  #grid = h("div", { class: "cards" });

  constructor(main, name, back) {
    this.#main = main;
    this.#name = name;
    this.#back = back;
    this.#header = new Header(name, back);
    const weights = new WeightsCard(name);
    const settings = new SettingsCard(name);
    const trying = new TryCard(name, weights, settings);
    const trail = new TrailCard(name);
    const whatIf = new WhatIfCard(name, settings);
    const manage = new ManageCard(name);
    for (const card of [trying, trail, settings, whatIf, manage]) card.element.classList.add("of-now");
    trying.element.dataset.needs = "write";
    whatIf.element.dataset.needs = "admin";
    this.#weights = weights;
    this.#versions = new VersionsBar(name, (stats) => this.#draw(stats ?? this.#stats));
    this.#cards = [
      new ErrorCard(name),
      new BoundCard(),
      new ConfusionCard(),
      new WindowsCard(),
      new ReliabilityCard(),
      new SetsCard(),
      new AskCard(),
      new ExpertsCard(),
      new ChallengersCard(name),
      whatIf,
      weights,
      trying,
      new BaselinesCard(),
      new DelayCard(),
      trail,
      settings,
      manage,
    ];
    const path = `feed?${new URLSearchParams({ model: name })}`;
    this.#feed = new Feed(path, (event, data) => this.#frame(event, data), showState);
  }

  open() {
    this.#main.replaceChildren(this.#header.element);
    this.#shownAt = performance.now();
    this.#feed.start();
    this.#timer = setInterval(() => this.#tick(), 1000);
    this.#load();
  }

  close() {
    this.#isClosed = true;
    this.#feed.stop();
    clearInterval(this.#timer);
    this.#versions.close();
    for (const card of this.#cards) card.close?.();
  }

  async #load() {
    try {
      this.#show(await getJson(modelPath("stats", this.#name)));
    } catch (error) {
      if (error.status) this.#refused(error);
    }
  }

  #frame(event, data) {
    if (event === "refused") this.#refused(data);
    else if (data.deleted) this.#gone("This model was deleted", `${this.#name} no longer exists.`);
    else this.#show(data);
  }

  #show(stats) {
    if (this.#isClosed || (this.#stats && stats.updated_at < this.#stats.updated_at)) return;
    const isFirst = !this.#stats;
    if (isFirst) {
      this.#grid.append(...this.#cards.map((card) => card.element));
      this.#main.append(this.#versions.element, this.#tiles.element, this.#grid);
    }
    this.#stats = stats;
    this.#shownAt = performance.now();
    this.#header.show(stats);
    this.#versions.follow(stats);
    if (this.#versions.at === null) this.#draw(stats);
    else if (isFirst) this.#draw(this.#versions.shown);
  }

  /** The figures, as they are or were at the version that was chosen. */
  #draw(stats) {
    if (this.#isClosed || !this.#stats || !stats) return;
    const { at } = this.#versions;
    this.#weights.at = at === null ? null : stats.version;
    this.#grid.classList.toggle("of-the-past", at !== null);
    this.#tiles.show(
      [
        percent(stats.ewma_error_rate),
        percent(stats.error_rate),
        count(stats.mistakes),
        count(stats.rounds.revealed),
        count(stats.updates),
        count(stats.rounds.pending),
      ],
      [
        "exponentially weighted",
        "over all rounds",
        "labels served wrong",
        "labels revealed",
        "weights moved",
        stats.rounds.expired ? `${count(stats.rounds.expired)} expired` : "pending",
      ],
    );
    for (const card of this.#cards) card.show(stats);
  }

  #tick() {
    this.#header.tick();
    if (performance.now() - this.#shownAt > QUIET_MS && !document.hidden) {
      this.#shownAt = performance.now();
      this.#load();
    }
  }

  #refused(error) {
    if (error.status === 404 || error.status === 422)
      this.#gone("Model not found", `There is no model ${this.#name}.`);
    else if (!this.#isClosed) this.#main.replaceChildren(refusal(error));
  }

  #gone(title, text) {
    if (this.#isClosed) return;
    this.close();
    this.#main.replaceChildren(notice(title, text, h("a", { href: this.#back() }, "All models")));
  }
}

class Header {
  #badge = h("span", { class: "badge" });
  #about = h("span");
  #changed = h("time");
  #inbox;
  #stats = null;

  constructor(name, back) {
    this.#inbox = h(
      "a",
      { href: `#/models/${encodeURIComponent(name)}/labels` },
      h("span", { "data-needs": "write" }, "Label predictions"),
      h("span", { "data-lacks": "write" }, "Pending predictions"),
    );
    this.element = h(
      "div",
      { class: "page-head" },
      h("p", { class: "crumb" }, h("a", { href: back() }, "All models")),
      h("h1", { tabindex: "-1" }, name),
      h("p", { class: "about" }, this.#badge, this.#about, this.#changed, " · ", this.#inbox, " · ", compareLink(name)),
    );
  }

  show(stats) {
    this.#stats = stats;
    const { state, count: times } = stats.drift;
    this.#badge.dataset.state = state;
    setText(this.#badge, state === "stable" ? "" : state);
    const drifts = times ? `${plural(times, "drift")} so far` : "no drift so far";
    setText(
      this.#about,
      `${stats.algorithm} · ${plural(stats.confusion.labels.length, "class", "classes")} · ${drifts} · `,
    );
    this.#changed.dateTime = stats.updated_at;
    this.#changed.title = dateTime(stats.updated_at);
    this.tick();
  }

  tick() {
    if (this.#stats) setText(this.#changed, `changed ${ago(this.#stats.updated_at)}`);
  }
}
