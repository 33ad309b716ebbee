import { expect, test } from "vitest";
import { messageActions } from "./provider.ts";
import { createTestDialogue, createTestPrimitives } from "./testing.ts";

test("say logs to the dialogue, and reports whether there is one", async () => {
  const { lines, dialogue } = createTestDialogue();

  expect(await createTestPrimitives(messageActions, { dialogue }).run("say", { value: "half way" })).toEqual({
    said: true,
    shown: true,
  });
  expect(lines).toEqual([{ level: "info", logger: "say", data: "half way" }]);
  expect(await createTestPrimitives(messageActions).run("say", { value: "hello?" })).toEqual({
    said: true,
    shown: false,
  });
  await expect(
    createTestPrimitives(messageActions).run("say", { value: "psst", target: "the other agent" }),
  ).rejects.toMatchObject({
    code: "invalid_arguments",
  });
});

test("think reaches no person and stores no note", async () => {
  const { lines, dialogue } = createTestDialogue();
  const { run, infospace } = createTestPrimitives(messageActions, { dialogue });

  expect(await run("think", { value: "so far so good" })).toEqual({ thought: true });
  expect(lines).toEqual([]);
  expect(infospace.notes.size).toBe(0);
});

test("rejects a blank text", async () => {
  const { run } = createTestPrimitives(messageActions);

  for (const entry of ["say", "think"]) {
    for (const value of ["", " \n\t"])
      await expect(run(entry, { value })).rejects.toMatchObject({ code: "invalid_arguments" });
  }
});
