/** A map that drops the entry used longest ago when it grows past its limit, and then calls `onEvict` with its value. */
export class LruMap<K, V> {
  readonly #limit: number;
  readonly #onEvict: ((value: V) => void) | undefined;
  readonly #entries = new Map<K, V>();

  constructor(limit: number, onEvict?: (value: V) => void) {
    this.#limit = limit;
    this.#onEvict = onEvict;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: K): V | undefined {
    const value = this.#entries.get(key);
    if (value !== undefined) {
      this.#entries.delete(key);
      this.#entries.set(key, value);
    }
    return value;
  }

  set(key: K, value: V): void {
    this.#entries.delete(key);
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#limit) return;
    for (const [oldest, evicted] of this.#entries) {
      this.#entries.delete(oldest);
      this.#onEvict?.(evicted);
      return;
    }
  }

  delete(key: K): boolean {
    return this.#entries.delete(key);
  }

  values(): Iterable<V> {
    return this.#entries.values();
  }

  clear(): void {
    this.#entries.clear();
  }
}
