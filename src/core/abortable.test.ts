import { expect, test, vi } from "vitest";
import { createWithSignal, getAbortable, LazyAbortController, toAbortSignal } from "./abortable.ts";

test("aborts a signal that was read before, and one that is read afterwards", () => {
  const controller = new LazyAbortController();
  const other = new LazyAbortController();
  const { signal } = controller;

  for (const each of [controller, other]) {
    each.abort("stop");
    each.abort("again");
  }

  expect(signal).toBe(controller.signal);
  expect(signal.reason).toBe("stop");
  expect(other.signal.reason).toBe("stop");
  expect(() => controller.throwIfAborted()).toThrow("stop");
});

test("tells each listener once, and none that was removed", () => {
  const controller = new LazyAbortController();
  const [heard, removed, late] = [vi.fn(), vi.fn(), vi.fn()];
  controller.onAbort(heard);
  controller.onAbort(removed)();
  expect(controller.aborted).toBe(false);

  controller.abort("stop");
  controller.abort("again");
  controller.onAbort(late);

  expect(heard.mock.calls).toEqual([["stop"]]);
  expect(removed).not.toHaveBeenCalled();
  expect(late.mock.calls).toEqual([["stop"]]);
});

test("an object's signal is created when it is read, and code of ours does without it", () => {
  const controller = new LazyAbortController();
  const context = createWithSignal<{ readonly signal: AbortSignal; readonly id: number }>(controller, { id: 1 });
  const { signal } = new AbortController();

  expect(getAbortable(context)).toBe(controller);
  expect([{ signal }, { ...context, signal }].map(getAbortable)).toEqual([signal, signal]);
  expect([context, { ...context }].map((each) => each.signal)).toEqual([controller.signal, controller.signal]);
  expect(toAbortSignal(controller)).toBe(controller.signal);
  expect(toAbortSignal(signal)).toBe(signal);
});

test("has the reason of an AbortController if none is given", () => {
  const controller = new LazyAbortController();
  controller.abort();

  expect(controller.reason).toMatchObject({ name: "AbortError" });
  expect(controller.signal.reason).toBe(controller.reason);
});

test("does not call a listener that another one has removed", () => {
  const controller = new LazyAbortController();
  const removed = vi.fn();
  controller.onAbort(() => remove());
  const remove = controller.onAbort(removed);
  controller.abort();

  expect(removed).not.toHaveBeenCalled();
});
