import { expect, test } from "vitest";
import { z } from "zod";
import { defineAction } from "../catalog/define-action.ts";
import { QmError } from "../core/errors.ts";
import { createPreviewer } from "./runner.ts";

const action = (preview?: () => Promise<string>) =>
  defineAction("test", {
    entry: "install",
    description: "Install something.",
    effect: "stateful",
    input: z.strictObject({}),
    ...(preview === undefined ? {} : { preview }),
    run: () => undefined,
  });

test("answers the preview of an action", async () => {
  const preview = createPreviewer();

  expect(await preview(action(), {})).toBeUndefined();
  expect(
    await preview(
      action(async () => "runs: node x.mjs"),
      {},
    ),
  ).toEqual({ text: "runs: node x.mjs" });
});

test("rejects when the preview fails", async () => {
  const preview = createPreviewer();
  const failing = (thrown: Error) =>
    preview(
      action(() => Promise.reject(thrown)),
      {},
    );

  await expect(failing(new Error("no network"))).rejects.toMatchObject({
    code: "action_failed",
    message: "the preview of test__install failed: no network",
  });
  await expect(failing(new QmError("registry_failed", "it is down"))).rejects.toMatchObject({
    code: "registry_failed",
  });
});

test("runs two previews at once, queues others, and refuses when the queue is full", async () => {
  const preview = createPreviewer();
  let running = 0;
  let most = 0;
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const slow = action(async () => {
    most = Math.max(most, ++running);
    await opened;
    running--;
    return "told";
  });

  const asked = Array.from({ length: 25 }, () => preview(slow, {}));
  const told = Promise.allSettled(asked);
  open();

  const refused = (await told).filter((one) => one.status === "rejected");
  expect(refused).toHaveLength(25 - 2 - 16);
  expect(refused[0]).toMatchObject({ reason: { code: "overloaded" } });
  expect(most).toBe(2);
});
