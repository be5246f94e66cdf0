// The fleet: all models, page by page, searched and sorted by the service, kept live by the feed.

import { getJson } from "./api.js";
import { h, setText } from "./dom.js";
import { emptyState } from "./empty.js";
import { Feed } from "./feed.js";
import { FleetTable } from "./fleet_table.js";
import { count, percent, plural } from "./format.js";
import { showState } from "./live.js";
import { refusal } from "./notice.js";
import { Tiles } from "./tiles.js";
import { Throttle } from "./timing.js";

const PAGE = 50;
const FIELDS = "algorithm,version,rounds,mistakes,error_rate,ewma_error_rate,drift,updated_at";
const SORTS = [
  ["name", "Name"],
  ["updated_at", "Last change"],
  ["rounds", "Rounds"],
  ["error_rate", "Error rate"],
  ["mistakes", "Mistakes"],
];
const RELOAD_MS = 5000;
const RELOAD_EMPTY_MS = 500;
const SEARCH_MS = 150;

/** Show the fleet in `main`. `onAddress` learns the address of what is shown, to come back to. */
export function openFleet(main, query, onAddress) {
  const fleet = new Fleet(main, onAddress);
  fleet.follow(query);
  return fleet;
}

class Fleet {
  #main;
  #onAddress;
  #place = {};
  #cursors = [null];
  #next = null;
  #asked = 0;
  #tiles = new Tiles("Over all models", ["Models", "Rounds", "Error rate", "Mistakes", "Pending"]);
  #table = new FleetTable((sort) => this.#go({ sort }));
  #search = h("input", {
    id: "search",
    type: "search",
    placeholder: "Search by the beginning of a name",
    "aria-label": "Search models by the beginning of their names",
    maxlength: "128",
    autocomplete: "off",
    spellcheck: "false",
    "aria-keyshortcuts": "/",
    oninput: () => this.#typed(),
  });
  #sort = h(
    "select",
    { id: "sort", onchange: () => this.#go({ sort: this.#sort.value }) },
    SORTS.map(([value, text]) => h("option", { value }, text)),
  );
  #range = h("p", { class: "range", role: "status" });
  #back = h("button", { type: "button", onclick: () => this.#turn(-1) }, "Previous");
  #forth = h("button", { type: "button", onclick: () => this.#turn(1) }, "Next");
  #list = h(
    "div",
    { class: "fleet" },
    h("div", { class: "page-head" }, h("h1", { tabindex: "-1" }, "Models")),
    this.#tiles.element,
    h(
      "div",
      { class: "toolbar" },
      this.#search,
      h("label", { class: "sort" }, "Sort by ", this.#sort),
      this.#range,
    ),
    this.#table.element,
    h("nav", { class: "paging", "aria-label": "Pages" }, this.#back, this.#forth),
  );
  #feed = new Feed(
    "feed",
    (event, data) => this.#frame(event, data),
    (state) => this.#stateIs(state),
  );
  #state = "connecting";
  #hasFrame = false;
  #reload = new Throttle(() => this.#load(), RELOAD_MS);
  #timer = null;
  #typing = null;

  constructor(main, onAddress) {
    this.#main = main;
    this.#onAddress = onAddress;
    this.#feed.start();
    this.#timer = setInterval(() => this.#tick(), 1000);
  }

  close() {
    this.#feed.stop();
    this.#reload.stop();
    clearInterval(this.#timer);
    clearTimeout(this.#typing);
    this.#asked = Infinity;
  }

  /** Go to the place that an address names. */
  follow(query) {
    const sort = SORTS.some(([value]) => value === query.get("sort")) ? query.get("sort") : "name";
    const page = Math.max(1, Number.parseInt(query.get("page") ?? "1", 10) || 1);
    const place = { search: query.get("search") ?? "", sort, page, cursor: query.get("cursor") };
    if (place.search !== this.#place.search || sort !== this.#place.sort || page === 1)
      this.#cursors = [null];
    if (page > 1) this.#cursors[page - 1] = place.cursor;
    this.#place = place;
    if (this.#search.value !== place.search) this.#search.value = place.search;
    this.#sort.value = sort;
    this.#table.showSort(sort);
    this.#onAddress(this.#address());
    this.#load();
  }

  #address() {
    const { search, sort, page, cursor } = this.#place;
    const query = new URLSearchParams();
    if (search) query.set("search", search);
    if (sort !== "name") query.set("sort", sort);
    if (page > 1 && cursor) {
      query.set("page", page);
      query.set("cursor", cursor);
    }
    return `${query}` ? `#/?${query}` : "#/";
  }

  /** To the first page of another search or order. */
  #go(change, isTyping = false) {
    this.#place = { ...this.#place, page: 1, cursor: null, ...change };
    const address = this.#address();
    if (isTyping) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    this.follow(new URLSearchParams(address.split("?")[1] ?? ""));
  }

  #typed() {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => this.#go({ search: this.#search.value.trim() }, true), SEARCH_MS);
  }

  #turn(by) {
    const page = this.#place.page + by;
    if (by > 0) this.#cursors[page - 1] = this.#next;
    const cursor = this.#cursors[page - 1] ?? null;
    this.#place = { ...this.#place, page: cursor ? page : 1, cursor };
    location.hash = this.#address();
    this.#table.element.scrollIntoView({ block: "nearest" });
  }

  async #load() {
    const asked = (this.#asked += 1);
    const { search, sort, cursor } = this.#place;
    const query = new URLSearchParams({ model: search, sort, limit: PAGE });
    if (cursor) query.set("cursor", cursor);
    try {
      const page = await getJson(`stats?${query}&fields=${FIELDS}`);
      if (asked === this.#asked) this.#show(page, query);
    } catch (error) {
      // The feed says when the service is away; what it refuses is worth a word.
      if (asked === this.#asked && error.status) this.#refused(error);
    }
  }

  #show(page, query) {
    const { search } = this.#place;
    this.#next = page.next;
    this.#reload.ms = page.totals.models ? RELOAD_MS : RELOAD_EMPTY_MS;
    if (!page.totals.models && !search) {
      if (!this.#main.querySelector(".empty")) this.#main.replaceChildren(emptyState());
      return;
    }
    if (!this.#list.isConnected) this.#main.replaceChildren(this.#list);
    this.#table.show(page.models);
    this.#table.showUnreadable(page.unreadable);
    this.#showTotals(page.totals);
    this.#showRange(page);
    if (this.#table.wantsCurves()) this.#loadCurves(query);
  }

  async #loadCurves(query) {
    try {
      this.#table.showCurves((await getJson(`stats?${query}&fields=curve`)).models);
    } catch {
      // Lines without curves do well enough.
    }
  }

  #showTotals(totals) {
    this.#tiles.show([
      count(totals.models),
      count(totals.rounds.revealed),
      percent(totals.error_rate),
      count(totals.mistakes),
      count(totals.rounds.pending),
    ]);
  }

  #showRange({ totals, models, unreadable, next }) {
    const { page, search } = this.#place;
    const first = (page - 1) * PAGE + 1;
    const span = `${count(first)} to ${count(first + models.length - 1)} of ${plural(totals.models, "model")}`;
    const all = plural(totals.models, "model");
    const isPaged = page > 1 || next !== null;
    const isNone = !models.length && !unreadable.length;
    this.#table.showNone(isNone ? `No model’s name begins with “${search}”.` : "");
    setText(this.#range, models.length && isPaged ? span : all);
    this.#back.disabled = page === 1;
    this.#forth.disabled = next === null;
    this.#back.parentElement.hidden = !isPaged;
  }

  #frame(event, data) {
    if (event === "refused") {
      this.#refused(data);
      return;
    }
    this.#table.update(data.models);
    if (this.#list.isConnected && !this.#place.search) this.#showTotals(data.totals);
    if (event === "changes" || this.#hasFrame || !this.#list.isConnected) this.#reload.ask();
    this.#hasFrame = true;
  }

  #stateIs(state) {
    this.#state = state;
    showState(state);
  }

  #tick() {
    this.#table.tick();
    // The service may answer although it has no room for one more on the feed.
    if (this.#state === "stale") this.#reload.ask();
  }

  #refused(error) {
    this.#main.replaceChildren(refusal(error));
  }
}
