// The audit trail in words, from the newest event back.

import { card, h, setText, table } from "../lib/dom.js";
import { count, dateTime, labelText, plural } from "../lib/format.js";
import { Throttle } from "../lib/timing.js";
import { scrollArea } from "../lib/widgets.js";
import { eventsBefore, lastEvents, Undone } from "./trail_events.js";

const SHOWN = 14;
const SOUGHT = 2 * SHOWN;
const EVERY_MS = 3000;

const KINDS = {
  created: () => "the model was created",
  imported: () => "the model was imported",
  fitted: ({ round }) => `a job trained it on a set of examples${atRound(round)}`,
  dimension: ({ dimension }) => `examples have ${plural(dimension, "feature")}`,
  expired: ({ count: number }) => `${plural(number, "prediction")} will never be revealed`,
  rounds: ({ labels }) => `${plural(labels.length, "round")} learned at once`,
  drift: ({ round }) => `the error rose at round ${count(round)}`,
  reset: () => `back to the start${atRound(0)}`,
  rolled_back: ({ to, round }) => `back to version ${count(to)}${atRound(round)}`,
  challenger_added: ({ challenger, warm }) =>
    `the challenger ${challenger} was added${warm ? `, with ${plural(warm.rounds, "round")} of history learned` : ""}`,
  challenger_removed: ({ challenger }) => `the challenger ${challenger} was removed`,
  promotion_rule: ({ promote }) => (promote ? "challengers are promoted automatically" : "no automatic promotion"),
  promoted: ({ challenger, former, round }) => `${challenger} serves in place of ${former}${atRound(round)}`,
  corrected: ({ label, former, reason }) => {
    const change =
      label === null
        ? `a round with the label ${labelText(former)} was discarded`
        : `the label ${labelText(former)} became ${labelText(label)}`;
    return reason ? `${change} (${reason})` : change;
  },
  voided: () => "a prediction was discarded",
  forgotten: ({ rounds }) => `${plural(rounds, "round")} to be forgotten`,
  purged: () => "forgotten rounds erased from the disk",
  erased: ({ rounds }) => `${plural(rounds, "round")} forgotten`,
  rebuilt: ({ since }) => `rebuilt from its corrected history, from version ${count(since)} on`,
};

/** The round that the chart marks, too; older versions have not noted it of every event. */
function atRound(round) {
  return round === null || round === undefined ? "" : `, round ${count(round)}`;
}

export class TrailCard {
  #name;
  #undone;
  #body = h("tbody");
  #newest = [];
  #seen = null;
  /** The places where the pages before this one began; empty on the newest page. */
  #befores = [];
  #end = null;
  #asked = 0;
  #filter = new TrailFilter(["revealed", "learned", ...Object.keys(KINDS)], () => this.#restart());
  #words = h("p", { class: "help", role: "status" });
  #newer = h("button", { type: "button", onclick: () => this.#turn(-1) }, "Newer");
  #older = h("button", { type: "button", onclick: () => this.#turn(1) }, "Older");
  #read = new Throttle(() => this.#load(), EVERY_MS);
  element = card(
    "Audit trail",
    "wide",
    this.#filter.element,
    scrollArea(
      "Events",
      "trail",
      table(
        "The events of this model, newest first",
        ["Event", "Time", "Kind", "True label", "Served", "Details"],
        this.#body,
      ),
    ).element,
    h("div", { class: "trail-paging" }, this.#words, this.#newer, this.#older),
  );

  constructor(name) {
    this.#name = name;
    this.#undone = new Undone(name);
  }

  close() {
    this.#read.stop();
  }

  show({ version, created_at: created, updated_at: updated, confusion }) {
    this.#filter.offer(confusion.labels);
    if (this.#seen?.updated === updated) return;
    if (this.#seen && this.#seen.created !== created) {
      this.#newest = [];
      this.#befores = [];
    }
    this.#seen = { version, created, updated };
    this.#read.ask();
  }

  /** Read what has happened since, and show it unless an older page is looked at. */
  async #load() {
    const last = this.#newest.at(-1);
    try {
      const since = last ? { seq: last.seq } : { guess: this.#seen.version };
      const { events, isAll } = await lastEvents(this.#name, SOUGHT, since);
      this.#newest = (isAll ? [...this.#newest, ...events] : events).slice(-SOUGHT);
      // Rollbacks may be further back than what is read here, at first and when much has happened.
      const mayHaveGoneBack = !last || !isAll || events.some(({ kind }) => kind === "rolled_back");
      if (mayHaveGoneBack) await this.#undone.read();
      if (!this.#befores.length) await this.#showPage();
    } catch {
      // The feed will ask again.
    }
  }

  #restart() {
    this.#befores = [];
    this.#showPage().catch(() => {});
  }

  #turn(by) {
    if (by < 0) this.#befores.pop();
    else this.#befores.push(this.#end);
    this.#showPage().catch(() => this.#befores.pop());
  }

  async #showPage() {
    const asked = (this.#asked += 1);
    const after = (this.#newest.at(-1)?.seq ?? 0) + 1;
    const known = this.#newest.toReversed().filter(this.#filter.takes);
    const page =
      !this.#befores.length && known.length >= SHOWN
        ? { events: known.slice(0, SHOWN), end: known[SHOWN - 1].seq }
        : await eventsBefore(this.#name, this.#befores.at(-1) ?? after, SHOWN, this.#filter.takes);
    if (asked !== this.#asked) return;
    this.#end = page.end;
    this.#body.replaceChildren(...page.events.map((event) => row(event, this.#undone.by(event), this.#filter.label)));
    this.#newer.disabled = !this.#befores.length;
    this.#older.disabled = page.end === null;
    setText(this.#words, this.#inWords(page));
  }

  #inWords({ events, end }) {
    if (events.length >= SHOWN) return "";
    if (end === null) return events.length ? "The trail begins here." : "Event not found.";
    return `Looked back to event ${count(end)}.`;
  }
}

/** A line, which says by which event a rollback has undone it, and how many of its rounds have the label that is sought. */
function row({ seq, kind, at, ...event }, undoneBy, sought) {
  const isRound = "label" in event && !(kind in KINDS);
  const isWrong = kind === "drift" || (kind === "revealed" && event.served !== event.label);
  return h(
    "tr",
    { class: undoneBy !== null ? "undone" : isWrong ? "wrong" : null },
    h("td", {}, count(seq)),
    h("td", {}, h("time", { datetime: at }, dateTime(at))),
    h("td", {}, `${kind.replaceAll("_", " ")} `, event.tag ? h("span", { class: "tag", title: event.tag }, event.tag) : null),
    h("td", {}, isRound ? text(event.label) : null),
    h("td", {}, isRound && "served" in event ? text(event.served) : null),
    h("td", {}, [KINDS[kind]?.(event), sharePart(kind, event, sought), undonePart(undoneBy)].filter(Boolean).join("; ")),
  );
}

/** Rounds that were learned at once are one event, with many labels. */
function sharePart(kind, { labels }, sought) {
  if (kind !== "rounds" || sought === undefined) return "";
  return `${count(labels.filter((label) => label === sought).length)} of them with ${labelText(sought)}`;
}

function undonePart(undoneBy) {
  return undoneBy === null ? "" : `undone by the rollback, event ${count(undoneBy)}`;
}

function text(label) {
  return h("span", { class: "label", title: String(label ?? "") }, labelText(label));
}

// Which events of the trail are shown: of one kind, with one label.

const ANY = "";

class TrailFilter {
  #labels = [];
  #kind;
  #label = h("select", { "aria-label": "Label" });
  element;

  constructor(kinds, onChange) {
    this.#kind = h(
      "select",
      { "aria-label": "Kind", onchange: onChange },
      h("option", { value: ANY }, "All kinds"),
      kinds.map((kind) => h("option", { value: kind }, kind.replaceAll("_", " "))),
    );
    this.#label.addEventListener("change", onChange);
    this.#label.append(h("option", { value: ANY }, "Any label"));
    this.element = h("div", { class: "trail-filter" }, this.#kind, this.#label);
  }

  /** The labels to choose from. */
  offer(labels) {
    if (labels.length === this.#labels.length) return;
    for (const label of labels.slice(this.#labels.length))
      this.#label.append(h("option", { value: JSON.stringify(label) }, labelText(label)));
    if (labels.length < this.#labels.length) {
      // The model began anew.
      this.#label.replaceChildren(h("option", { value: ANY }, "Any label"));
      this.#labels = [];
      this.offer(labels);
    }
    this.#labels = labels;
  }

  /** The label that is sought; undefined if it may be any. */
  get label() {
    return this.#label.value === ANY ? undefined : JSON.parse(this.#label.value);
  }

  /** Whether an event is to be shown. */
  takes = (event) => {
    if (this.#kind.value !== ANY && event.kind !== this.#kind.value) return false;
    const { label } = this;
    return label === undefined || event.label === label || Boolean(event.labels?.includes(label));
  };
}
