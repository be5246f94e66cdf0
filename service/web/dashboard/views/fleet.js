// The fleet: all models, page by page, searched and sorted by the service, kept live by the feed.

import { getJson } from "../lib/api.js";
import { h, setText } from "../lib/dom.js";
import { Feed } from "../lib/feed.js";
import { count, percent, plural } from "../lib/format.js";
import { showState } from "../lib/live.js";
import { Throttle } from "../lib/timing.js";
import { refusal, Tiles } from "../lib/widgets.js";
import { Attention } from "./attention.js";
import { emptyState } from "./empty.js";
import { FleetTable } from "./fleet_table.js";

const PAGE = 50;
const FIELDS = "algorithm,version,rounds,mistakes,error_rate,ewma_error_rate,drift,updated_at";
const SORTS = [
  ["name", "Name"],
  ["updated_at", "Last change"],
  ["rounds", "Rounds"],
  ["ewma_error_rate", "Recent error"],
  ["error_rate", "Error rate"],
  ["mistakes", "Mistakes"],
  ["pending", "Pending"],
];
const WAYS = { name: ["A to Z", "Z to A"], number: ["Largest first", "Smallest first"] };
// Longer addresses may be refused on the way; the feed of all models has these, too.
const ADDRESS_CHARS_MAX = 6000;
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
  #next = null;
  #previous = null;
  #asked = 0;
  #tiles = new Tiles("All models", ["Models", "Rounds", "Error rate", "Mistakes", "Pending"]);
  #table = new FleetTable((sort) => this.#sortBy(sort));
  #attention = new Attention();
  #search = h("input", {
    id: "search",
    type: "search",
    placeholder: "Search by any part of a name",
    "aria-label": "Search models by any part of their names",
    maxlength: "128",
    autocomplete: "off",
    spellcheck: "false",
    "aria-keyshortcuts": "/",
    oninput: () => this.#typed(),
  });
  #sort = h(
    "select",
    { id: "sort", onchange: () => this.#go({ sort: this.#sort.value, reverse: false }) },
    SORTS.map(([value, text]) => h("option", { value }, text)),
  );
  #way = h("button", { type: "button", class: "quiet", onclick: () => this.#sortBy(this.#place.sort) });
  #range = h("p", { class: "range", role: "status" });
  #back = h("button", { type: "button", onclick: () => this.#turn(-1) }, "Previous");
  #forth = h("button", { type: "button", onclick: () => this.#turn(1) }, "Next");
  #list = h(
    "div",
    { class: "fleet" },
    h(
      "div",
      { class: "page-head fleet-head" },
      h("h1", { tabindex: "-1" }, "Models"),
      h("a", { class: "first-link", href: "#/compare" }, "Compare"),
      h("a", { href: "#/new", "data-needs": "admin" }, "New model"),
    ),
    this.#tiles.element,
    this.#attention.element,
    h(
      "div",
      { class: "toolbar" },
      this.#search,
      h("div", { class: "sort" }, h("label", {}, "Sort by ", this.#sort), this.#way),
      this.#range,
    ),
    this.#table.element,
    h("nav", { class: "paging", "aria-label": "Pages" }, this.#back, this.#forth),
  );
  #feed = new Feed(
    "feed",
    (event, data) => this.#frame(event, data),
    (state, seconds) => this.#stateIs(state, seconds),
  );
  #state = "connecting";
  #hasFrame = false;
  #isFollowing = false;
  #reload = new Throttle(() => this.#load(), RELOAD_MS);
  #timer = null;
  #typing = null;

  constructor(main, onAddress) {
    this.#main = main;
    this.#onAddress = onAddress;
    this.#timer = setInterval(() => this.#tick(), 1000);
  }

  close() {
    this.#feed.stop();
    this.#reload.stop();
    this.#attention.close();
    clearInterval(this.#timer);
    clearTimeout(this.#typing);
    this.#asked = Infinity;
  }

  /** Go to the place that an address names. */
  follow(query) {
    const sort = SORTS.some(([value]) => value === query.get("sort")) ? query.get("sort") : "name";
    const page = Math.max(1, Number.parseInt(query.get("page") ?? "1", 10) || 1);
    const reverse = query.has("reverse");
    const place = { search: query.get("search") ?? "", sort, reverse, page, cursor: query.get("cursor"), back: query.has("back") };
    this.#place = place;
    if (this.#search.value !== place.search) this.#search.value = place.search;
    this.#sort.value = sort;
    this.#table.showSort(sort, reverse);
    setText(this.#way, WAYS[sort === "name" ? "name" : "number"][Number(reverse)]);
    this.#onAddress(this.#address());
    this.#load();
  }

  #address() {
    const { search, sort, reverse, page, cursor, back } = this.#place;
    const query = new URLSearchParams();
    if (search) query.set("search", search);
    if (sort !== "name") query.set("sort", sort);
    if (reverse) query.set("reverse", "1");
    if (page > 1 && cursor) {
      query.set("page", page);
      query.set("cursor", cursor);
      if (back) query.set("back", "1"); // the cursor is that of the page behind it
    }
    return `${query}` ? `#/?${query}` : "#/";
  }

  /** To the first page of another search or order. */
  #go(change, isTyping = false) {
    this.#place = { ...this.#place, page: 1, cursor: null, back: false, ...change };
    const address = this.#address();
    if (isTyping) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    this.follow(new URLSearchParams(address.split("?")[1] ?? ""));
  }

  #typed() {
    clearTimeout(this.#typing);
    this.#typing = setTimeout(() => this.#go({ search: this.#search.value.trim() }, true), SEARCH_MS);
  }

  /** A second time by the same column is the other way round. */
  #sortBy(sort) {
    this.#go({ sort, reverse: sort === this.#place.sort && !this.#place.reverse });
  }

  #turn(by) {
    const page = this.#place.page + by;
    const cursor = page === 1 ? null : by > 0 ? this.#next : this.#previous;
    this.#place = { ...this.#place, page: cursor ? page : 1, cursor, back: by < 0 };
    location.hash = this.#address();
    this.#table.element.scrollIntoView({ block: "nearest" });
  }

  async #load() {
    const asked = (this.#asked += 1);
    const { search, sort, reverse, cursor, back } = this.#place;
    const isBack = back && cursor !== null;
    const query = new URLSearchParams({ contains: search, sort, limit: PAGE, reverse: reverse !== isBack });
    if (cursor) query.set("cursor", cursor);
    try {
      const page = await getJson(`stats?${query}&fields=${FIELDS}`);
      if (asked === this.#asked) this.#show(isBack ? turned(page) : page, query);
    } catch (error) {
      // The feed says when the service is away; what it refuses is worth a word.
      if (asked !== this.#asked) return;
      if (error.status) this.#refused(error);
      else if (!this.#isFollowing) this.#followShown([]);
    }
  }

  #show(page, query) {
    const { search } = this.#place;
    this.#next = page.next;
    this.#previous = page.previous;
    this.#followShown(page.models);
    this.#reload.ms = page.totals.models ? RELOAD_MS : RELOAD_EMPTY_MS;
    if (!page.totals.models && !search) {
      if (!this.#main.querySelector(".empty")) this.#main.replaceChildren(emptyState());
      return;
    }
    if (!this.#list.isConnected) this.#main.replaceChildren(this.#list);
    this.#attention.ask();
    this.#table.show(page.models);
    this.#table.showUnreadable(page.unreadable);
    this.#showTotals(page.totals);
    this.#showRange(page);
    if (this.#table.wantsCurves()) this.#loadCurves(query);
  }

  /** The feed tells of the models that are shown, and of the totals. */
  #followShown(models) {
    const names = models.map(({ model }) => model).sort();
    const path = `feed?${new URLSearchParams({ models: names.join(",") })}`;
    this.#feed.follow(path.length > ADDRESS_CHARS_MAX ? "feed" : path);
    if (!this.#isFollowing) this.#feed.start();
    this.#isFollowing = true;
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
    const isPaged = page > 1 || next !== null;
    const all = search && !isPaged ? `${plural(models.length, "model")} found` : plural(totals.models, "model");
    const of = search ? "of those found" : `of ${all}`;
    const span = `${count(first)} to ${count(first + models.length - 1)} ${of}`;
    const isNone = !models.length && !unreadable.length;
    this.#table.showNone(isNone ? `No model has “${search}” in its name.` : "");
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

  #stateIs(state, seconds) {
    this.#state = state;
    showState(state, seconds);
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

/** A page of the list the other way round, as the page that it is. */
function turned({ models, next, previous, ...rest }) {
  return { ...rest, models: models.toReversed(), next: previous, previous: next };
}
