// Which key and which place a label has. It knows nothing about the page.

const KEYS = 9;

/** Labels keep their keys and their places as long as this object lives: hands learn them. */
export class LabelOrder {
  #keys = new Map(); // label → its key, or null, in the order of their places

  /** [{label, key}] of the classes of /stats: up to nine as the model has them, of more the most frequent ones first.
   *  Labels that appear later come last. Only the first nine have a key. */
  offered(classes) {
    const added = classes.filter(({ label }) => !this.#keys.has(label));
    if (classes.length > KEYS) added.sort((one, other) => other.support - one.support);
    for (const { label } of added) this.#keys.set(label, this.#keys.size < KEYS ? String(this.#keys.size + 1) : null);
    const present = new Set(classes.map(({ label }) => label));
    return [...this.#keys].filter(([label]) => present.has(label)).map(([label, key]) => ({ label, key }));
  }
}
