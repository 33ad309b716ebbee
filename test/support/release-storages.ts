import { AsyncLocalStorage } from "node:async_hooks";
import { afterAll } from "vitest";

/**
 * A vitest setup file for workers that run many test files. In Node 20 every AsyncLocalStorage that was ever used slows
 * down all later promises of the process, and each quartermaster has several. This disables those that a file used.
 */
const used = new Set<AsyncLocalStorage<unknown>>();
const { run } = AsyncLocalStorage.prototype;

AsyncLocalStorage.prototype.run = function (this: AsyncLocalStorage<unknown>, ...args: Parameters<typeof run>) {
  used.add(this);
  return run.apply(this, args);
} as typeof run;

afterAll(() => {
  AsyncLocalStorage.prototype.run = run;
  for (const storage of used) storage.disable();
});
