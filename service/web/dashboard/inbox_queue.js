// Which prediction is to be labelled next. It knows nothing about the page.

const LIMIT = 50;

export class InboxQueue {
  #waiting = [];
  #skipped = new Map(); // id → prediction, the last one last
  #done = new Set();
  #isGone = false;

  /** `before`: a queue of another order, whose skips and reveals count here, too. */
  constructor(order, before = null) {
    this.order = order;
    if (before) {
      this.#skipped = before.#skipped;
      this.#done = before.#done;
    }
  }

  /** How many to ask the service for: what was skipped comes again. */
  get limit() {
    return Math.min(1000, LIMIT + this.#skipped.size);
  }

  get current() {
    return this.#waiting[0] ?? null;
  }

  /** Whether the current one waits no longer, by what somebody else has done. */
  get isGone() {
    return this.#isGone;
  }

  get skipped() {
    return this.#skipped.size;
  }

  /** Take the first page of what waits. The one that is shown stays, even if it is gone: it is being looked at, and a
   *  key that is pressed in this moment is meant for it. */
  refill({ pending, next }) {
    const { current } = this;
    const ids = new Set(pending.map((each) => each.prediction_id));
    for (const id of this.#done) if (!ids.has(id)) this.#done.delete(id);
    // What was skipped and pushed off the page by newer ones may wait all the same.
    if (next === null) for (const id of this.#skipped.keys()) if (!ids.has(id)) this.#skipped.delete(id);
    const rest = pending.filter(
      ({ prediction_id: id }) => !this.#skipped.has(id) && !this.#done.has(id) && id !== current?.prediction_id,
    );
    const stays = current && (ids.has(current.prediction_id) || (next !== null && this.#isBeyond(current, pending)));
    this.#waiting = current ? [current, ...rest] : rest;
    this.#isGone = Boolean(current && !stays);
  }

  /** Whether a prediction stands behind a page, which cannot tell of it then. */
  #isBeyond(one, pending) {
    const last = pending.at(-1);
    if (this.order === "newest") return one.at <= last.at;
    return (one.probability ?? -1) >= (last.probability ?? -1);
  }

  skip() {
    if (this.current) this.#skipped.set(this.current.prediction_id, this.current);
    this.#goOn();
  }

  /** To the one that was skipped last. */
  back() {
    const last = [...this.#skipped.values()].at(-1);
    if (!last) return;
    this.#skipped.delete(last.prediction_id);
    // One that is gone is not to be looked at again, when what comes before it is done.
    if (this.#isGone) this.done();
    this.#waiting.unshift(last);
  }

  /** The current one waits no longer. */
  done() {
    if (this.current) this.#done.add(this.current.prediction_id);
    this.#goOn();
  }

  #goOn() {
    this.#waiting.shift();
    this.#isGone = false;
  }

  forgetSkips() {
    this.#skipped.clear();
  }
}
