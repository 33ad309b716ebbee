/** A map that drops the entry used longest ago when it grows past its limit, and then calls `onEvict` with its value. */
export class LruMap<K, V> extends Map<K, V> {
  readonly #limit: number;
  readonly #onEvict: ((value: V) => void) | undefined;
  #newest: K | undefined;

  constructor(limit: number, onEvict?: (value: V) => void) {
    super();
    this.#limit = limit;
    this.#onEvict = onEvict;
  }

  override get(key: K): V | undefined {
    const value = super.get(key);
    if (value !== undefined && key !== this.#newest) this.set(key, value);
    return value;
  }

  override set(key: K, value: V): this {
    if (key !== this.#newest) super.delete(key);
    super.set(key, value);
    this.#newest = key;
    if (this.size <= this.#limit) return this;
    for (const [oldest, evicted] of this) {
      super.delete(oldest);
      this.#onEvict?.(evicted);
      break;
    }
    return this;
  }
}
