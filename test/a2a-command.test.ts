import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { afterAll, expect, onTestFinished, test, vi } from "vitest";
import { atTerminal, cleanUp, createTestFolder, qm, start } from "../src/cli/testing.ts";
import { type ScriptedAnswer, startScriptedServer } from "../src/model/testing.ts";

afterAll(cleanUp);

const TOKEN = "partner-token-0123456789";

/** Starts `qm serve` as the desk of another company: an exposed actor that may read files. */
async function startDesk(...answers: readonly ScriptedAnswer[]) {
  const model = await startScriptedServer(...answers);
  onTestFinished(() => model.close());
  const folder = await createTestFolder({
    "offer.txt": "Ten apples for five.",
    "quartermaster.yaml": `
models: { default: { provider: openai-compatible, model: scripted, base_url: "${model.url}" } }
a2a:
  enabled: true
  name: Fruit desk
  clients: { partner: { token: "\${env:PARTNER_TOKEN}", actor: partner } }
policy:
  rules: [{ name: ask-first, rule: "tool.name == 'file__read'", effect: ask }]
actors:
  partner: { tools: [agent.peer__clerk] }
  clerk: { tools: [file__read], description: Knows the offers., exposed: true, surface: { kind: flat } }
`,
  });
  const { child } = start(folder, ["serve", "--port", "0", "--json"], { PARTNER_TOKEN: TOKEN });
  const [line] = (await once(createInterface(child.stdout as Readable), "line")) as [string];
  const { a2a, url } = JSON.parse(line);
  return { folder, a2a, origin: new URL(url).origin };
}

async function createShop(origin: string): Promise<string> {
  return createTestFolder({
    "quartermaster.yaml": `
peers: { desk: { url: "${origin}", token: "\${secret:DESK_TOKEN}", timeout_ms: 3000 } }
`,
  });
}

test("a command delegates to the actor of another one over A2A, with a person's approval in between", async () => {
  const { folder, a2a, origin } = await startDesk(
    { toolCalls: [{ id: "c1", name: "file__read", input: { path: "offer.txt" } }] },
    { text: "We offer ten apples for five." },
  );
  const shop = await createShop(origin);
  const env = { NO_COLOR: "1" };
  expect((await qm(shop, ["invoke", "agent.peer__desk", '{"message":"hi"}'], { env })).err).toContain("DESK_TOKEN");
  async function* typed(): AsyncGenerator<string> {
    yield TOKEN;
  }
  expect((await qm(shop, ["secrets", "set", "DESK_TOKEN"], { stdin: typed() })).code).toBe(0);

  const shown = JSON.parse((await qm(shop, ["peers", "show", "desk", "--json"])).out);
  const asked = JSON.parse(
    (await qm(shop, ["invoke", "agent.peer__desk", '{"message":"What do you offer?"}', "--json"])).out,
  );
  const { id, user, actor } = await vi.waitFor(
    async () => {
      const { approvals } = JSON.parse((await qm(folder, ["approvals", "list", "--json"])).out);
      expect(approvals).toHaveLength(1);
      return approvals[0];
    },
    { timeout: 10_000 },
  );
  expect((await qm(folder, ["approvals", "approve", id], atTerminal("y\n"))).code).toBe(0);
  const question = JSON.stringify({ task: asked.data.task });
  const answered = await vi.waitFor(
    async () => {
      const outcome = JSON.parse((await qm(shop, ["invoke", "agent.peer__desk", question, "--json"])).out);
      expect(outcome.data.state).toBe("completed");
      return outcome;
    },
    { timeout: 10_000 },
  );

  expect(a2a).toBe(`${origin}/a2a`);
  expect(shown).toMatchObject({ card: { name: "Fruit desk", skills: [{ id: "agent.peer__clerk", name: "clerk" }] } });
  expect(asked).toMatchObject({
    status: "done",
    data: { state: expect.stringMatching(/^(?:auth_required|working)$/) },
  });
  expect({ user, actor }).toEqual({ user: "peer:partner", actor: "clerk" });
  expect(answered).toMatchObject({
    status: "done",
    data: { state: "completed", text: "We offer ten apples for five." },
  });
  const { out } = await qm(shop, ["events", "--json"]);
  expect(out).toContain("delegation.started");
  expect(out).not.toContain(TOKEN);
});
