// The rows of the fleet. A row is made once and then only its texts change.

import { sparkline } from "../charts/chart.js";
import { extend, topOf, trailingRate } from "../charts/curve.js";
import { h, longName, setText } from "../lib/dom.js";
import { ago, count, dateTime, percent } from "../lib/format.js";

const COLUMNS = [
  { title: "Model", kind: "name", sort: "name" },
  { title: "Trend", kind: "spark" },
  { title: "Recent error", kind: "recent", sort: "ewma_error_rate", note: "exponentially weighted error rate" },
  { title: "Error rate", kind: "rate", sort: "error_rate" },
  { title: "Mistakes", kind: "mistakes", sort: "mistakes" },
  { title: "Rounds", kind: "rounds", sort: "rounds" },
  { title: "Pending", kind: "pending", sort: "pending" },
  { title: "Last change", kind: "changed", sort: "updated_at" },
];
const SPARK_WINDOWS = 12;
const RESTLESS_MS = 2000;

export class FleetTable {
  #rows = new Map();
  #curves = new Map();
  #heads = new Map();
  #body = h("tbody", { role: "rowgroup" });
  #none = h("p", { class: "none", role: "status" });
  #unreadable = h("ul", { class: "unreadable", "aria-label": "Models that cannot be read" });
  #pointedAt = -Infinity;

  constructor(onSort) {
    const heads = COLUMNS.map((column) => this.#head(column, onSort));
    this.element = h(
      "div",
      {
        class: "fleet-table",
        onkeydown: (event) => this.#press(event),
        onpointermove: () => (this.#pointedAt = performance.now()),
      },
      h(
        "table",
        { role: "table" },
        h("caption", { class: "unseen" }, "Models with their errors, mistakes and rounds"),
        h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)),
        this.#body,
      ),
      this.#none,
      this.#unreadable,
    );
  }

  #head({ title, kind, sort, note }, onSort) {
    const inside = sort ? h("button", { type: "button", onclick: () => onSort(sort) }, title) : title;
    const head = h("th", { scope: "col", role: "columnheader", class: kind, title: note }, inside);
    if (sort) this.#heads.set(sort, head);
    return head;
  }

  showSort(sort, isReversed) {
    this.element.dataset.sort = sort;
    const ways = ["ascending", "descending"];
    const way = ways[Number((sort === "name") === isReversed)];
    for (const [by, head] of this.#heads) {
      if (by === sort) head.setAttribute("aria-sort", way);
      else head.removeAttribute("aria-sort");
    }
  }

  showNone(text) {
    setText(this.#none, text);
    this.element.firstChild.hidden = text !== "";
  }

  /** Models without figures, and why there are none. */
  showUnreadable(models) {
    this.#unreadable.hidden = !models.length;
    this.#unreadable.replaceChildren(
      ...models.map(({ model, detail }) => h("li", {}, h("strong", {}, longName(model)), ` ${detail}`)),
    );
  }

  /** These rows, in this order; but nothing moves under a pointer that is about to click. */
  show(models) {
    const names = models.map(({ model }) => model);
    const shown = [...this.#rows.keys()];
    const isSameSet = names.length === shown.length && names.every((name) => this.#rows.has(name));
    this.update(models);
    if (
      isSameSet &&
      (performance.now() - this.#pointedAt < RESTLESS_MS || names.every((name, i) => name === shown[i]))
    )
      return;
    const focused = document.activeElement;
    const rows = new Map(models.map((stats) => [stats.model, this.#rows.get(stats.model) ?? new Row(stats)]));
    this.#body.replaceChildren(...[...rows.values()].map((row) => row.element));
    this.#rows = rows;
    for (const name of this.#curves.keys()) if (!rows.has(name)) this.#curves.delete(name);
    if (this.#body.contains(focused)) focused.focus({ preventScroll: true });
  }

  /** New figures for those rows that are shown. */
  update(models) {
    for (const stats of models) {
      const row = this.#rows.get(stats.model);
      if (!row?.show(stats)) continue;
      const curve = this.#curves.get(stats.model);
      if (curve) this.#draw(row, stats.model, extend(curve, stats.rounds.revealed, stats.mistakes));
    }
  }

  wantsCurves() {
    return [...this.#rows.keys()].some((name) => !this.#curves.has(name));
  }

  showCurves(models) {
    for (const { model, curve } of models) {
      const row = this.#rows.get(model);
      if (row) this.#draw(row, model, curve);
    }
  }

  #draw(row, name, curve) {
    this.#curves.set(name, curve);
    row.draw(curve);
  }

  /** Time goes by even if nothing happens. */
  tick() {
    for (const row of this.#rows.values()) row.tick();
  }

  /** Up and down go from name to name. */
  #press(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const links = [...this.#body.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    if (!by || at < 0 || !links[at + by]) return;
    event.preventDefault();
    links[at + by].focus();
  }
}

class Row {
  #cells = new Map();
  #badge = h("span", { class: "badge" });
  #algorithm = h("span", { class: "algorithm" });
  #time = h("time");
  #shown = null;

  constructor(stats) {
    const link = h(
      "a",
      { href: `#/models/${encodeURIComponent(stats.model)}`, title: stats.model, "aria-label": stats.model },
      longName(stats.model),
    );
    const first = h(
      "th",
      { scope: "row", role: "rowheader", class: "name" },
      h("div", {}, link, this.#badge),
      this.#algorithm,
    );
    const others = COLUMNS.slice(1).map(({ kind }) => {
      const cell = h("td", { class: kind, role: "cell" });
      this.#cells.set(kind, cell);
      return cell;
    });
    this.#cells.get("changed").append(this.#time);
    this.element = h("tr", { role: "row" }, first, others);
    this.show(stats);
  }

  /** False if these figures are older than those shown. */
  show(stats) {
    if (this.#shown && stats.updated_at < this.#shown.updated_at) return false;
    this.#shown = stats;
    const drift = stats.drift?.state ?? stats.drift;
    setText(this.#algorithm, stats.algorithm);
    setText(this.#badge, drift === "stable" ? "" : drift);
    this.#badge.dataset.state = drift;
    this.#set("recent", percent(stats.ewma_error_rate));
    this.#set("rate", percent(stats.error_rate));
    this.#set("mistakes", count(stats.mistakes));
    this.#set("rounds", count(stats.rounds.revealed));
    this.#set("pending", count(stats.rounds.pending));
    this.#time.dateTime = stats.updated_at;
    this.#time.title = dateTime(stats.updated_at);
    this.tick();
    return true;
  }

  tick() {
    setText(this.#time, ago(this.#shown.updated_at));
  }

  draw(curve) {
    const rounds = curve.rounds.at(-1) ?? 0;
    const points = trailingRate(curve, Math.max(8, rounds / SPARK_WINDOWS));
    this.#cells
      .get("spark")
      .replaceChildren(sparkline(points, { yMax: Math.max(0.05, topOf([points], rounds)) }));
  }

  #set(kind, text) {
    setText(this.#cells.get(kind), text);
  }
}
