// Which prediction is to be labelled next, and which one came before. It knows nothing about the page.

const LIMIT = 50;
const LABELLED_MAX = 100;

/** Predictions are as the service tells them. One that was labelled here has its `label`, too. */
export class InboxQueue {
  #waiting = [];
  #passed = new Map(); // id → prediction that can be gone back to, the last one last
  #done = new Set(); // ids that are not shown again
  #isGone = false;

  /** `before`: a queue of another order, whose skips and labels count here, too. */
  constructor(order, before = null) {
    this.order = order;
    if (before) {
      this.#passed = before.#passed;
      this.#done = before.#done;
    }
  }

  /** How many to ask the service for: what was skipped or discarded comes again. */
  get limit() {
    return Math.min(1000, LIMIT + this.skipped + this.discarded);
  }

  get current() {
    return this.#waiting[0] ?? null;
  }

  /** Whether the current one waits no longer, by what somebody else has done. */
  get isGone() {
    return this.#isGone;
  }

  get skipped() {
    return this.#all("skipped").length;
  }

  /** How many wait at the service only until their discard is sent. */
  get discarded() {
    return this.#all("discarded").filter((each) => !("label" in each)).length;
  }

  #all(fate) {
    return [...this.#passed.values()].filter((each) => each.fate === fate);
  }

  /** The id of the one that can be gone back to. */
  get previous() {
    return [...this.#passed.keys()].at(-1) ?? null;
  }

  /** Take the first page of pending predictions. The one that is shown stays, even if it is gone: it is being looked at, and a
   *  key that is pressed in this moment is meant for it. */
  refill({ pending, next }) {
    const ids = new Set(pending.map((each) => each.prediction_id));
    // What newer ones have pushed off the page waits all the same; what was labelled here does not wait.
    const isGone = (one) =>
      !("label" in one) && !ids.has(one.prediction_id) && (next === null || !this.#isBeyond(one, pending));
    if (next === null) for (const id of this.#done) if (!ids.has(id)) this.#done.delete(id);
    for (const [id, one] of this.#passed) if (isGone(one)) this.#passed.delete(id);
    const stay = this.#waiting.filter((each, at) => at === 0 || "label" in each);
    const known = new Set([...this.#passed.keys(), ...this.#done, ...stay.map((each) => each.prediction_id)]);
    this.#waiting = [...stay, ...pending.filter((each) => !known.has(each.prediction_id))];
    this.#isGone = Boolean(this.current && isGone(this.current));
  }

  /** Whether a prediction stands behind a page, which cannot tell of it then. */
  #isBeyond(one, pending) {
    const last = pending.at(-1);
    if (this.order === "newest") return one.at <= last.at;
    return (one.probability ?? -1) >= (last.probability ?? -1);
  }

  /** On to the next. The current one can be gone back to; its `fate` is skipped, discarded or labelled. */
  pass(fate, given = {}) {
    const one = { ...this.current, ...given, fate };
    this.#passed.set(one.prediction_id, one);
    const labelled = this.#all("labelled");
    if (labelled.length > LABELLED_MAX) this.close(labelled[0].prediction_id);
    this.#goOn();
  }

  /** To the one before. */
  back() {
    const last = this.#passed.get(this.previous);
    if (!last) return;
    this.#passed.delete(last.prediction_id);
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

  /** One that was passed cannot be gone back to any more; false if it could not anyway. */
  close(id) {
    this.#done.add(id);
    return this.#passed.delete(id);
  }

  /** One that was closed comes again if it still waits. */
  reopen(id) {
    this.#done.delete(id);
  }

  forgetSkips() {
    for (const { prediction_id: id } of this.#all("skipped")) this.#passed.delete(id);
  }
}
