import { expect, test } from "vitest";
import { turns } from "./turns.ts";

test("lets work in one at a time, in the order asked for", async () => {
  const inTurn = turns();
  const steps: string[] = [];
  const work = (name: string) => async () => {
    steps.push(`${name} in`);
    await new Promise((resolve) => setImmediate(resolve));
    steps.push(`${name} out`);
  };

  await Promise.all([inTurn(work("a")), inTurn(work("b"))]);

  expect(steps).toEqual(["a in", "a out", "b in", "b out"]);
});

test("goes on after a failure, which is its asker's alone", async () => {
  const inTurn = turns();

  const failing = inTurn(() => Promise.reject(new Error("mine")));
  const next = inTurn(() => "fine");

  await expect(failing).rejects.toThrow("mine");
  await expect(next).resolves.toBe("fine");
});
