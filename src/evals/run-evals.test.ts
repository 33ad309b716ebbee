import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { z } from "zod";
import { createQuartermaster, type Quartermaster } from "../index.ts";
import { type EvalCase, promptHash } from "./eval-case.ts";
import { recordCase } from "./record-case.ts";
import { type EvalOptions, runEvals } from "./run-evals.ts";
import type { Subject } from "./subject.ts";

let qm: Quartermaster;
let ran: string[];

beforeEach(async () => {
  ran = [];
  qm = await createQuartermaster({ approvals: { worker: false } });
  const tool = (name: string, effect: "read" | "write", more: object = {}): void => {
    qm.register({
      name,
      description: `Does ${name}.`,
      scope: "generalist",
      effect,
      inputSchema: z.object({
        id: z.string().optional(),
        lang: z.string().default("en"),
        token: z.string().optional(),
      }),
      ...more,
      handler: ({ id }) => {
        ran.push(name);
        if (id === "bad") throw new Error("no such thing");
        return { name, id };
      },
    });
  };
  tool("look", "read", { outputSchema: z.object({ name: z.string(), id: z.string().optional() }) });
  tool("send", "write");
  tool("deploy", "write", { requiresApproval: true });
});
afterEach(() => qm.close());

const caller = { session: "s", turn: "t", user: { id: "u", tier: "gold" } };
const agrees = async () => ({ decision: "approved", by: "ann", roles: ["admin"] }) as const;

async function recorded(): Promise<EvalCase> {
  await qm.invoke("look", { id: "1" }, { caller });
  await qm.invoke("tool__look", { id: "bad" }, { caller });
  await qm.invoke("tool__send", { id: "1", token: "a-secret-token" }, { caller });
  await qm.invoke("tool__deploy", { id: "1" }, { caller, ask: agrees });
  const made = await recordCase(
    qm.ledger,
    { turn: "t" },
    { messages: [{ role: "user", content: "Look." }], prompt: "Be brief." },
  );
  ran.length = 0;
  return JSON.parse(JSON.stringify(made));
}

const evaluate = (cases: readonly EvalCase[], subject?: Subject, options: Partial<EvalOptions> = {}) =>
  runEvals(cases, subject, { quartermaster: qm, ...options });

/** A subject that makes these calls, one after the other. */
const calling =
  (...calls: readonly (readonly [string, unknown])[]): Subject =>
  async (_given, { surface }) => {
    const parts = [];
    for (const [name, args] of calls) {
      const { ok, text } = await surface.call("invoke_action", { action_name: name, args });
      parts.push({ type: "tool-result", ok, text });
    }
    return { parts, turnState: "complete" };
  };

describe("a recorded case", () => {
  test("has the caller, the calls, their outcomes and the expectations", async () => {
    expect(await recorded()).toEqual({
      id: "t",
      caller: { actor: "default", ...caller },
      messages: [{ role: "user", content: "Look." }],
      prompt: { text: "Be brief.", hash: promptHash("Be brief.") },
      calls: [
        { name: "tool__look", args: { id: "1" }, outcome: { status: "done", data: { name: "look", id: "1" } } },
        {
          name: "tool__look",
          args: { id: "bad" },
          outcome: { status: "failed", error: { code: "action_failed", error: "tool__look failed: no such thing" } },
        },
        {
          name: "tool__send",
          args: { id: "1", token: "[redacted]" },
          outcome: { status: "done", data: { name: "send", id: "1" } },
        },
        {
          name: "tool__deploy",
          args: { id: "1" },
          outcome: { status: "done", data: { name: "deploy", id: "1" } },
          approvedBy: "ann",
        },
      ],
      expected: { state: "complete", called: ["tool__look", "tool__send", "tool__deploy"] },
      source: { session: "s", turn: "t" },
    });
  });

  test("leaves out calls made by actions, and needs at least one call", async () => {
    qm.register({
      name: "around",
      description: "Looks in between.",
      scope: "generalist",
      effect: "read",
      inputSchema: z.object({}),
      handler: async (_args, { invoke }) => (await invoke("tool__look", {})).status,
    });
    await qm.invoke("tool__around", {}, { caller });
    await qm.surface({ session: "empty" }).then((surface) => surface.call("list_actions", {}));
    await qm.ledger.flush();

    expect((await recordCase(qm.ledger, { session: "s" })).calls.map(({ name }) => name)).toEqual(["tool__around"]);
    await expect(recordCase(qm.ledger, { session: "empty" })).rejects.toMatchObject({ code: "invalid_arguments" });
    await expect(recordCase(qm.ledger, { session: "none" })).rejects.toMatchObject({ code: "not_found" });
  });
});

describe("without a subject", () => {
  test("repeats the recorded calls with the same outcomes", async () => {
    const { summary, cases } = await evaluate([await recorded()]);

    expect(cases[0]?.scores.map(({ name, pass }) => [name, pass])).toEqual([
      ["sameOutcomes", true],
      ["state", true],
      ["called", true],
    ]);
    expect(summary).toEqual({
      cases: 1,
      passed: 1,
      failed: 0,
      problems: 0,
      promptMismatches: 0,
      score: 1,
      realCalls: 0,
    });
    expect(ran).toEqual([]);
  });

  test("fails the case if another policy decides differently", async () => {
    const { cases } = await evaluate([await recorded()], undefined, {
      policy: { rules: [{ name: "quiet", rule: "tool.entry == 'send'", effect: "deny" }] },
    });

    expect(cases[0]).toMatchObject({ pass: false });
    expect(cases[0]?.scores[0]).toEqual({
      name: "sameOutcomes",
      pass: false,
      score: 0.75,
      why: "tool__send was done and is refused (denied)",
    });
  });
});

describe("a subject", () => {
  test("gets recorded answers through the policy on every surface", async () => {
    const given = await recorded();
    const subject: Subject = async ({ messages }, { surface }) => {
      expect(messages).toEqual([{ role: "user", content: "Look." }]);
      const found = await surface.call("search_actions", { query: "look" });
      expect(found.text).toContain("tool__look");
      // Another spelling, the default written out, and a second look at the same thing.
      const looks = [
        await surface.call("invoke_action", { action_name: "look", args: { id: "1", lang: "en" } }),
        await surface.call("invoke_action", { action_name: "tool__look", args: { id: "1" } }),
      ];
      const failed = await surface.call("invoke_action", { action_name: "tool__look", args: { id: "bad" } });
      const sent = await surface.call("invoke_action", { action_name: "tool__send", args: { id: "1", token: "any" } });
      const deployed = await surface.call("invoke_action", { action_name: "tool__deploy", args: { id: "1" } });
      return {
        parts: [{ type: "seen", answers: [...looks, failed, sent, deployed].map(({ data }) => data) }],
        turnState: "complete",
      };
    };

    const { cases } = await evaluate(
      [
        {
          ...given,
          expected: {
            exact: [
              {
                type: "seen",
                answers: [
                  { name: "look", id: "1" },
                  { name: "look", id: "1" },
                  { status: "failed", code: "action_failed", error: "tool__look failed: no such thing" },
                  { name: "send", id: "1" },
                  { name: "deploy", id: "1" },
                ],
              },
            ],
          },
        },
      ],
      subject,
    );

    expect(cases[0]).toMatchObject({ pass: true, unrecorded: [] });
    expect(ran).toEqual([]);
  });

  test.each([
    ["fail", false, /there is no recorded result of tool__send with these arguments/],
    ["refuse", true, /tool__send may not be called with these arguments/],
  ] as const)("that makes an unrecorded call: %s", async (unrecorded, pass, told) => {
    const given = { ...(await recorded()), expected: { called: ["send"] } };

    // The same thing sent twice is not what was recorded, either.
    const once = ["tool__send", { id: "1", token: "any" }] as const;
    const { cases } = await evaluate([given], calling(once, once), { unrecorded });

    expect(cases[0]?.pass).toBe(pass);
    expect(cases[0]?.unrecorded).toEqual([{ asked: "tool__send", args: { id: "1", token: "any" } }]);
    const texts = await evaluate(
      [given],
      async (_given, { surface }) => {
        const { text } = await surface.call("invoke_action", { action_name: "tool__send", args: { id: "2" } });
        return { parts: [{ type: "text", text }], turnState: "complete" };
      },
      {
        unrecorded,
        scorers: [
          { name: "told", score: ({ envelope }) => ({ pass: told.test(String(envelope.parts[0]?.text)), why: "" }) },
        ],
      },
    );
    expect(texts.cases[0]?.scores).toContainEqual({ name: "told", pass: true, score: 1, why: "" });
  });

  test("waits if an approval is needed that was not recorded", async () => {
    const given = { ...(await recorded()), expected: { called: [{ name: "send", status: "waiting" as const }] } };

    const { cases } = await evaluate([given], calling(["tool__send", { id: "1", token: "any" }]), {
      policy: { rules: [{ rule: "tool.entry == 'send'", effect: "ask" }] },
    });

    expect(cases[0]).toMatchObject({ pass: true, unrecorded: [] });
  });

  test.each([
    ["throws nothing", () => Promise.reject(undefined), /undefined/],
    ["answers no envelope", async () => ({ parts: "none" }), /did not return an envelope: parts/],
    ["answers a cycle", async () => cycle(), /did not return an envelope/],
    ["never ends", () => new Promise(() => {}), /did not end within 1000 ms/],
    ["expects nothing to be said", async () => ({ parts: [], turnState: "complete" }), undefined],
  ])("that %s fails its case and no other", async (_what, answer, error) => {
    const given = { ...(await recorded()), expected: {} };
    const fine = { ...given, id: "fine", expected: { state: "complete" } };
    const subject = (each: EvalCase) =>
      each.id === "fine" ? { parts: [], turnState: "complete" } : (answer() as ReturnType<Subject>);

    const { cases } = await evaluate([given, fine], subject, { timeoutMs: 1000 });

    expect(cases.map(({ pass }) => pass)).toEqual([false, true]);
    if (error !== undefined) expect(cases[0]?.error).toMatch(error);
    else expect(cases[0]?.scores).toMatchObject([{ name: "expected", pass: false }]);
  });

  test("cannot make calls after its case is over", async () => {
    const given = { ...(await recorded()), expected: { state: "complete" } };
    let late: Promise<{ ok: boolean }> | undefined;
    let over = (): void => {};
    const isOver = new Promise<void>((resolve) => {
      over = resolve;
    });

    await evaluate([given], async (_given, { surface }) => {
      late = isOver.then(() => surface.call("invoke_action", { action_name: "tool__look", args: { id: "1" } }));
      return { parts: [], turnState: "complete" };
    });
    over();

    expect(await late).toMatchObject({ ok: false, data: { code: "cancelled" } });
  });
});

describe("a prompt that differs from the recorded one", () => {
  const subject =
    (text: string): Subject =>
    () => ({ parts: [], turnState: "complete", prompt: { text } });

  test.each([
    ["warn", true, 1],
    ["error", false, 1],
    ["ignore", true, 0],
  ] as const)("%s", async (promptHashMismatch, pass, mismatches) => {
    const given = { ...(await recorded()), expected: { state: "complete" } };

    const changed = await evaluate([given], subject("Be long."), { promptHashMismatch });
    const unchanged = await evaluate([given], subject("Be brief."), { promptHashMismatch });

    expect(changed.cases[0]?.pass).toBe(pass);
    expect(changed.summary.promptMismatches).toBe(mismatches);
    expect(unchanged.summary).toMatchObject({ passed: 1, promptMismatches: 0 });
  });
});

test("an empty dataset is an error", async () => {
  await expect(evaluate([])).rejects.toMatchObject({ code: "invalid_arguments" });
});

function cycle(): unknown {
  const part: Record<string, unknown> = { type: "text" };
  part.self = part;
  return { parts: [part], turnState: "complete" };
}
