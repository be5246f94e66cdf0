// Waiting, and not doing things too often.

/** Resolves after some time, or at once when the signal is aborted. */
export function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}

/** Calls `work` soon, but never more often than `ms` allows and never twice at the same time. */
export class Throttle {
  #work;
  #timer = null;
  #busy = false;
  #again = false;
  #endedAt = -Infinity;

  constructor(work, ms) {
    this.#work = work;
    this.ms = ms;
  }

  ask() {
    if (this.#busy) this.#again = true;
    else
      this.#timer ??= setTimeout(() => this.#run(), Math.max(0, this.#endedAt + this.ms - performance.now()));
  }

  stop() {
    clearTimeout(this.#timer);
    this.#work = () => {};
  }

  async #run() {
    this.#busy = true;
    try {
      await this.#work();
    } finally {
      this.#timer = null;
      this.#busy = false;
      this.#endedAt = performance.now();
      if (this.#again) {
        this.#again = false;
        this.ask();
      }
    }
  }
}
