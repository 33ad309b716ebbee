import { expect, test } from "vitest";
import { within } from "./within.ts";

const never = new Promise(() => {});
const timers = () => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;

test("tells whether something is over in time, however it went", async () => {
  expect(await within(Promise.resolve(), 60_000)).toBe(true);
  expect(await within(Promise.reject(new Error()), 60_000)).toBe(true);
  expect(await within(never, 1)).toBe(false);
});

test("leaves no timer that would hold the process", async () => {
  const before = timers();
  await within(Promise.resolve(), 60_000);

  expect(timers()).toBe(before);
});
