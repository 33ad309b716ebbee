import { expect, test, vi } from "vitest";
import { LazyAbortController } from "./lazy-abort-controller.ts";

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
