import { afterEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createQuartermaster, defineAction, type Quartermaster, type QuartermasterOptions } from "../../src/index.ts";

const open: Quartermaster[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((quartermaster) => quartermaster.close()));
});

async function start(options: QuartermasterOptions = {}): Promise<Quartermaster> {
  const quartermaster = await createQuartermaster(options);
  open.push(quartermaster);
  return quartermaster;
}

const echo = {
  name: "echo",
  description: "Answers what it was told.",
  inputSchema: z.object({}),
  handler: () => "taken",
  scope: "generalist",
  effect: "pure",
} as const;

const surfaceTools = ["list_actions", "describe_action", "search_actions", "invoke_action", "tool_search", "tool_get"];
const reserved = ["respond", ...surfaceTools];

describe("a reserved name", () => {
  test.each([...reserved, "Respond", "respond_", "functions.respond", " respond ", "Invoke_Action"])(
    "is refused as an alias: %s",
    async (alias) => {
      const qm = await start();

      expect(() => qm.register({ ...echo, aliases: ["say", alias] })).toThrow(/aliases .* is reserved/);
    },
  );

  test.each(["respond", "Respond", "respond_"])("is refused as a name: %s", async (name) => {
    const qm = await start();

    expect(() => qm.register({ ...echo, name })).toThrow(/name .* is reserved/);
  });

  test("is refused as an alias of a provider's action", async () => {
    const problems: string[] = [];
    const action = defineAction("desk", {
      entry: "answer",
      description: "Answers.",
      effect: "pure",
      input: z.object({}),
      aliases: ["respond"],
      run: () => "taken",
    });
    const qm = await start({
      providers: [{ category: "desk", capability: "answer", list: () => [action] }],
      onProblem: (problem) => problems.push(problem),
    });

    expect(qm.names()).not.toContain("desk__answer");
    expect(problems).toEqual([expect.stringMatching(/desk__answer is left out: its alias "respond" is reserved/)]);
  });

  test.each(reserved)("does not resolve to an action whose entry ends with it: %s", async (name) => {
    const action = defineAction("desk", {
      entry: `front__${name}`,
      description: "Answers.",
      effect: "pure",
      input: z.object({}),
      run: () => "taken",
    });
    const qm = await start({ providers: [{ category: "desk", capability: "answer", list: () => [action] }] });

    for (const asked of [name, name.toUpperCase(), `default_api.${name}`]) {
      expect(await qm.invoke(asked, {})).toMatchObject({ status: "failed", error: { code: "unknown_action" } });
    }
    expect(await qm.invoke(`desk__front__${name}`, {})).toMatchObject({ status: "done", data: "taken" });
  });
});
