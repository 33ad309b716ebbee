import { Bag } from "./bag.ts";

/** An `AbortSignal`, or our own controller in its place, which costs less. Code of others gets `toAbortSignal` of it. */
export type Abortable = AbortSignal | LazyAbortController;

export const toAbortSignal = (signal: Abortable): AbortSignal =>
  signal instanceof LazyAbortController ? signal.signal : signal;

/** An `AbortController` that creates its signal when it is read for the first time, because creating one is slow. */
export class LazyAbortController {
  #controller: AbortController | undefined;
  #listeners: Bag<(reason: unknown) => void> | undefined;
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
  abort(reason: unknown = new DOMException("This operation was aborted", "AbortError")): void {
    if (this.#end !== undefined) return;
    this.#end = { reason };
    this.#controller?.abort(reason);
    // One listener may remove another.
    for (const listener of this.#listeners ?? []) if (this.#listeners?.has(listener)) listener(reason);
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
    this.#listeners ??= new Bag();
    this.#listeners.add(listener);
    return () => this.#listeners?.delete(listener);
  }
}

const CONTROLLER = Symbol("controller");
type WithController = { readonly [CONTROLLER]: LazyAbortController };

// One getter for all objects. With one for each, V8 would create a hidden class for each.
const lazySignal: PropertyDescriptor = {
  enumerable: true,
  configurable: true,
  get(this: WithController) {
    return this[CONTROLLER].signal;
  },
};

/** An object of the parts, with a `signal` that is created when it is read. */
export function createWithSignal<T>(controller: LazyAbortController, ...parts: readonly object[]): T {
  // Assigned, because V8 is slow to spread an object and then add fields to it.
  const object: object = Object.assign({}, ...parts);
  // Not enumerable: a copy may be given another signal.
  Object.defineProperty(object, CONTROLLER, { value: controller });
  return Object.defineProperty(object, "signal", lazySignal) as T;
}

/** What aborts the object's `signal`, without creating that. */
export const getAbortable = (object: { readonly signal: AbortSignal }): Abortable =>
  (object as Partial<WithController>)[CONTROLLER] ?? object.signal;
