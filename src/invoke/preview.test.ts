import { expect, test } from "vitest";
import { z } from "zod";
import { defineAction } from "../catalog/define.ts";
import { createPreviewer } from "./preview.ts";

const action = (preview?: () => Promise<string>) =>
  defineAction("test", {
    entry: "install",
    description: "Install something.",
    effect: "stateful",
    input: z.strictObject({}),
    ...(preview === undefined ? {} : { preview }),
    run: () => undefined,
  });

test("tells what an action would do, and why that cannot be told", async () => {
  const preview = createPreviewer();

  expect(await preview(action(), {})).toBeUndefined();
  expect(
    await preview(
      action(async () => "runs: node x.mjs"),
      {},
    ),
  ).toBe("runs: node x.mjs");
  expect(
    await preview(
      action(() => Promise.reject(new Error("no network"))),
      {},
    ),
  ).toBe("cannot be told: no network");
});

test("looks up no more than two at once, whoever asks", async () => {
  const preview = createPreviewer();
  let open = (): void => {};
  const opened = new Promise<string>((resolve) => {
    open = () => resolve("told");
  });

  const asked = Array.from({ length: 5 }, () =>
    preview(
      action(() => opened),
      {},
    ),
  );
  open();

  const told = await Promise.all(asked);
  expect(told.filter((text) => text === "told")).toHaveLength(2);
  expect(told.filter((text) => text?.includes("cannot be told now"))).toHaveLength(3);
  expect(
    await preview(
      action(async () => "again"),
      {},
    ),
  ).toBe("again");
});
