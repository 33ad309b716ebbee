import { afterAll, expect, onTestFinished, test } from "vitest";
import { cleanUp, createTestFolder, qm as runCli } from "../src/cli/testing.ts";
import { createQuartermaster } from "../src/index.ts";

afterAll(cleanUp);

const say = ["invoke", "infospace__say", JSON.stringify({ value: "half\u001B[2J way" })];

test("a message reaches the person at the command line as it comes, on stderr and escaped", async () => {
  const folder = await createTestFolder({ "quartermaster.yaml": "actors: { default: { tools: ['*'] } }" });

  const { code, out, err } = await runCli(folder, [...say, "--json"]);

  expect(code).toBe(0);
  expect(err).toBe("half\\u{1b}[2J way\n");
  expect(JSON.parse(out)).toMatchObject({ status: "done", data: { said: true, shown: true } });
  expect((await runCli(folder, say, { columns: 80 })).err).toContain("half\\u{1b}[2J way\n");
});

test("a message reaches the host from any call, also inside another one and through a surface", async () => {
  const said: unknown[] = [];
  const qm = await createQuartermaster({
    infospace: { enabled: true },
    onSay: (text, { caller }) => said.push([text, caller.session]),
  });
  onTestFinished(() => qm.close());
  qm.register({
    name: "count",
    description: "Counts and says so.",
    inputSchema: { type: "object", properties: {} },
    scope: "generalist",
    effect: "external",
    handler: async (_, { invoke }) => (await invoke("infospace__say", { value: "one" })).status,
  });

  const outcome = await qm.invoke("tool__count", {}, { caller: { session: "a" } });
  const surface = await qm.surface({ session: "b" }, "flat");
  const answer = await surface.call("infospace__say", { value: "two" });

  expect(outcome).toMatchObject({ status: "done", data: "done" });
  expect(answer.data).toEqual({ said: true, shown: true });
  expect(said).toEqual([
    ["one", "a"],
    ["two", "b"],
  ]);
});
