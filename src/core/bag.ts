/**
 * A few values that come and go often, such as the calls in progress. V8 links every table that a `Set` or `Map` outgrows to
 * the next one. Under load, all that was ever in them would stay in memory until a full collection.
 */
export class Bag<T> implements Iterable<T> {
  readonly #items: T[] = [];

  get size(): number {
    return this.#items.length;
  }

  /** The value must not be in it yet. */
  add(item: T): void {
    this.#items.push(item);
  }

  has(item: T): boolean {
    return this.#items.includes(item);
  }

  find(isWanted: (item: T) => boolean): T | undefined {
    return this.#items.find(isWanted);
  }

  /** Removes a value. The order of the others may change. */
  delete(item: T): boolean {
    const at = this.#items.indexOf(item);
    if (at === -1) return false;
    const last = this.#items.pop() as T;
    if (at < this.#items.length) this.#items[at] = last;
    return true;
  }

  /** The values that are there now. */
  [Symbol.iterator](): Iterator<T> {
    return [...this.#items][Symbol.iterator]();
  }
}
