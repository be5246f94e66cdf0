// Server-Sent Events over fetch, since EventSource cannot send a key.
// A lost stream is taken up again where it ended: soon without a response, after a growing pause if refused.

import { Away, request } from "./api.js";
import { pause } from "./timing.js";

const RETRY_MS = 2000;
const RETRY_MAX_MS = 15000;
// The service says something every 15 s at least.
const SILENCE_MAX_MS = 40000;
const STALE_AFTER_MS = 10000;
// Asking again would not help: a key is needed, or there is nothing of that name.
const FINAL = new Set([401, 403, 404, 422]);

/** Follows a path. Calls `onFrame(event, data)` and `onState("connecting" | "live" | "reconnecting" | "stale", seconds)`,
 * the latter every second while there is nothing to follow: with the seconds until the next try, or null during one. */
export class Feed {
  #path;
  #onFrame;
  #onState;
  #state = null;
  #lastId = null;
  #retryMs = RETRY_MS;
  #heardAt = performance.now();
  #lostAt = performance.now();
  #run = null;
  #retryAt = null;
  #watch = null;
  #wake = () => this.#follow();

  constructor(path, onFrame, onState) {
    this.#path = path;
    this.#onFrame = onFrame;
    this.#onState = onState;
  }

  start() {
    this.#say("connecting");
    document.addEventListener("visibilitychange", this.#wake);
    window.addEventListener("online", this.#wake);
    this.#watch = setInterval(() => this.#check(), 1000);
    this.#follow();
  }

  /** Follow another path from now on. */
  follow(path) {
    if (path === this.#path) return;
    this.#path = path;
    this.#lastId = null;
    if (this.#watch !== null) this.#follow();
  }

  stop() {
    document.removeEventListener("visibilitychange", this.#wake);
    window.removeEventListener("online", this.#wake);
    clearInterval(this.#watch);
    this.#run?.abort();
  }

  /** Begin afresh. A page that nobody sees lets go: the browser has few connections, and the service few places. */
  #follow() {
    this.#run?.abort();
    if (document.hidden) return;
    this.#run = new AbortController();
    this.#heardAt = performance.now();
    this.#loop(this.#run.signal);
  }

  async #loop(signal) {
    let failures = 0;
    while (!signal.aborted) {
      this.#retryAt = null;
      let isAway = false;
      try {
        await this.#read(signal, () => (failures = 0));
      } catch (error) {
        if (signal.aborted) return;
        if (FINAL.has(error.status)) {
          this.#onFrame("refused", error);
          return;
        }
        isAway = error instanceof Away;
      }
      if (signal.aborted) return;
      if (this.#state === "live") this.#say("reconnecting");
      // A service that comes back finds few who ask, and each of them soon; one that has no room is left in peace.
      const longest = isAway ? RETRY_MS : Math.min(RETRY_MAX_MS, this.#retryMs * 2 ** failures);
      failures += 1;
      const ms = longest * (0.75 + Math.random() / 4);
      this.#retryAt = performance.now() + ms;
      this.#tell();
      await pause(ms, signal);
    }
  }

  async #read(signal, onOpen) {
    const headers = { Accept: "text/event-stream" };
    if (this.#lastId) headers["Last-Event-ID"] = this.#lastId;
    const answer = await request(this.#path, { headers, signal, cache: "no-store" });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || signal.aborted) return;
      onOpen();
      this.#heardAt = performance.now();
      this.#say("live");
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) this.#take(block);
    }
  }

  #take(block) {
    let event = "message";
    const data = [];
    for (const line of block.split(/\r?\n/)) {
      const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
      if (field === "id") this.#lastId = value;
      else if (field === "event") event = value;
      else if (field === "data") data.push(value);
      else if (field === "retry" && /^\d+$/.test(value)) this.#retryMs = Number(value);
    }
    if (data.length) this.#onFrame(event, JSON.parse(data.join("\n")));
  }

  #check() {
    const now = performance.now();
    if (document.hidden) return;
    if (this.#state !== "live") {
      if (now - this.#lostAt > STALE_AFTER_MS) this.#say("stale");
      this.#tell();
    } else if (now - this.#heardAt > SILENCE_MAX_MS) {
      this.#say("reconnecting");
      this.#follow();
    }
  }

  #say(state) {
    if (state === this.#state) return;
    if (this.#state === "live") this.#lostAt = performance.now();
    this.#state = state;
    this.#tell();
  }

  #tell() {
    const left = this.#retryAt === null ? null : Math.max(0, this.#retryAt - performance.now());
    this.#onState(this.#state, left === null ? null : Math.ceil(left / 1000));
  }
}
