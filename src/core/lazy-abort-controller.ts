/** An `AbortController` that creates its signal when it is read for the first time, because creating one is slow. */
export class LazyAbortController {
  #controller: AbortController | undefined;
  #listeners: Set<(reason: unknown) => void> | undefined;
  #end: { readonly reason: unknown } | undefined;

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#end !== undefined) this.#controller.abort(this.#end.reason);
    }
    return this.#controller.signal;
  }

  get aborted(): boolean {
    return this.#end !== undefined;
  }

  get reason(): unknown {
    return this.#end?.reason;
  }

  /** The first reason counts. */
  abort(reason: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { reason };
    this.#controller?.abort(reason);
    for (const listener of this.#listeners ?? []) listener(reason);
    this.#listeners = undefined;
  }

  throwIfAborted(): void {
    if (this.#end !== undefined) throw this.#end.reason;
  }

  /** Calls `listener` once on abort, or now if that has happened. Returns a function that removes the listener. */
  onAbort(listener: (reason: unknown) => void): () => void {
    if (this.#end !== undefined) {
      listener(this.#end.reason);
      return () => {};
    }
    this.#listeners ??= new Set();
    this.#listeners.add(listener);
    return () => this.#listeners?.delete(listener);
  }
}
