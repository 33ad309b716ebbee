import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { systemRuntime } from "../src/app/system-runtime.ts";
import type { Approver } from "../src/approval/approval.ts";
import { createLeftOpenError, type Dialogue } from "../src/core/caller.ts";
import {
  createQuartermaster,
  type JsonObject,
  type Outcome,
  type Quartermaster,
  type QuartermasterOptions,
} from "../src/index.ts";
import { openSqlite } from "../src/store/drivers/sqlite.ts";
import { sql } from "../src/store/sql.ts";

const ann: Approver = { id: "ann", roles: ["approver"], via: "test" };
const approved = { decision: "approved" } as const;
const denied = { decision: "denied" } as const;
const DAY_MS = 86_400_000;

const open: Quartermaster[] = [];
const folders: string[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((each) => each.close()));
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

interface World {
  readonly qm: Quartermaster;
  /** The payments, in order. */
  readonly paid: unknown[];
  /** Advances the clock. */
  later(ms: number): void;
}

async function world(options: QuartermasterOptions = {}, rule: object = { requiresApproval: true }): Promise<World> {
  let offset = 0;
  const runtime = { ...systemRuntime, now: () => new Date(Date.now() + offset) };
  const qm = await createQuartermaster({ runtime, ...options });
  open.push(qm);
  const paid: unknown[] = [];
  qm.register({
    name: "pay",
    description: "Pay a sum.",
    inputSchema: {
      type: "object",
      properties: { sum: { type: "number" }, password: { type: "string" } },
      required: ["sum"],
    },
    scope: "generalist",
    effect: "external",
    handler: (args, { approvalDecision }) => {
      paid.push(args);
      return { paid: (args as JsonObject).sum, by: approvalDecision?.by };
    },
    ...rule,
  });
  return {
    qm,
    paid,
    later: (ms) => {
      offset += ms;
    },
  };
}

function idOf(outcome: Outcome): string {
  if (outcome.status !== "waiting") expect.fail(`it is ${outcome.status}: ${outcome.value}`);
  return outcome.approval.id;
}

const ended = (qm: Quartermaster, id: string) => qm.approvals.outcome(id, { timeoutMs: 5_000 });
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (thrown: { readonly code?: string }) => thrown.code ?? String(thrown),
  );

describe("a call that needs approval", () => {
  test("waits, runs once after approval, and names the approver", async () => {
    const { qm, paid } = await world();

    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    expect(paid).toEqual([]);
    await qm.approvals.answer(id, { ...approved, reason: "go on" }, ann);

    expect(await ended(qm, id)).toMatchObject({ status: "done", data: { paid: 5, by: "ann" } });
    expect(await qm.approvals.run()).toBe(0);
    expect(paid).toEqual([{ sum: 5 }]);
    const types = (await qm.ledger.read({})).map(({ type }) => type).filter((type) => /^(call|approval)\./.test(type));
    expect(types).toEqual([
      "call.received",
      "call.decided",
      "approval.requested",
      "call.suspended",
      "approval.decided",
      "call.resumed",
      "call.decided",
      "call.ended",
    ]);
  });

  test("returns tool_denied after a denial, and never runs", async () => {
    const { qm, paid } = await world();

    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, { ...denied, reason: "too dear" }, ann);

    expect(await ended(qm, id)).toMatchObject({
      status: "refused",
      reason: "ann denied this call: too dear",
      error: { code: "tool_denied", approval_id: id },
    });
    expect(await qm.approvals.run()).toBe(0);
    expect(paid).toEqual([]);
  });

  test("reuses the pending request when it is repeated", async () => {
    const { qm, paid } = await world();

    const [first, second] = await Promise.all([qm.invoke("tool__pay", { sum: 5 }), qm.invoke("tool__pay", { sum: 5 })]);
    const other = await qm.invoke("tool__pay", { sum: 6 });

    expect(idOf(second)).toBe(idOf(first));
    expect(idOf(other)).not.toBe(idOf(first));
    await qm.approvals.answer(idOf(first), approved, ann);
    await ended(qm, idOf(first));
    expect(paid).toEqual([{ sum: 5 }]);
  });

  test("returns its outcome once when it is repeated after the run, then makes a new request", async () => {
    const { qm, paid } = await world();
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);
    await expect.poll(() => paid.length).toBe(1);
    await expect.poll(async () => (await qm.approvals.get(id)).state).toBe("done");

    const again = await qm.invoke("tool__pay", { sum: 5 });
    const anew = await qm.invoke("tool__pay", { sum: 5 });

    expect(again).toMatchObject({ status: "done", data: { paid: 5 } });
    expect(idOf(anew)).not.toBe(id);
    expect(paid).toHaveLength(1);
  });

  test("cannot be approved after it has expired", async () => {
    const { qm, paid, later } = await world({}, { requiresApproval: { autoApproveIf: "false", expiresIn: "15m" } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));

    later(15 * 60_000);

    expect(await codeOf(qm.approvals.answer(id, approved, ann))).toBe("approval_expired");
    expect(await ended(qm, id)).toMatchObject({ status: "refused", error: { code: "approval_expired" } });
    expect(await qm.approvals.run()).toBe(0);
    expect(paid).toEqual([]);
  });

  test("does not run if it expires after the approval and before the run", async () => {
    const { qm, paid, later } = await world({ approvals: { worker: false } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);

    later(DAY_MS);

    expect(await qm.approvals.run()).toBe(0);
    expect((await qm.approvals.get(id)).state).toBe("expired");
    expect(paid).toEqual([]);
  });

  test("shows the exact arguments except known secrets, and runs with them", async () => {
    const secrets = () => [{ name: "PAY_PIN", value: "correct-horse" }];
    const { qm, paid } = await world({ redact: { secrets } });
    const args = { sum: 5, password: "correct-horse", token: "not known" };

    const id = idOf(await qm.invoke("tool__pay", args));
    const shown = JSON.stringify([await qm.approvals.list(), await qm.approvals.get(id)]);
    await qm.approvals.answer(id, approved, ann);
    await ended(qm, id);

    expect(shown).not.toContain("correct-horse");
    expect(shown).toContain('"password":"[secret PAY_PIN]","token":"not known"');
    expect(JSON.stringify(await qm.ledger.read({}))).not.toContain("correct-horse");
    expect(paid).toEqual([args]);
  });

  test("is refused when the session has reached the limit of open requests", async () => {
    const { qm } = await world({ policy: { approvals: { maxOpen: 2 } } });

    const outcomes = [];
    for (const sum of [1, 2, 3]) outcomes.push(await qm.invoke("tool__pay", { sum }));

    expect(outcomes.map(({ status }) => status)).toEqual(["waiting", "waiting", "failed"]);
    expect(outcomes[2]).toMatchObject({ error: { code: "overloaded" } });
    expect((await qm.invoke("tool__pay", { sum: 3 }, { caller: { session: "another" } })).status).toBe("waiting");
  });
});

describe("who may approve", () => {
  const answers: readonly (readonly [string, object, object, Approver, string])[] = [
    ["an approver", {}, {}, ann, "done"],
    ["an administrator", {}, {}, { id: "eve", roles: ["admin"], via: "test" }, "done"],
    ["a viewer", {}, {}, { id: "eve", roles: ["viewer"], via: "test" }, "denied"],
    ["a person without roles", {}, {}, { id: "eve", roles: [], via: "test" }, "denied"],
    ["the user of the call", {}, {}, { ...ann, id: "uma" }, "denied"],
    ["the person of the call", {}, {}, { ...ann, id: "pat" }, "denied"],
    ["the user of the call, with allowSelf", { allowSelf: true }, {}, { ...ann, id: "uma" }, "done"],
    ["an approver, at level admin", {}, { level: "admin" }, ann, "denied"],
    ["an administrator, at level admin", {}, { level: "admin" }, { ...ann, roles: ["admin"] }, "done"],
    ["the role of a custom level", {}, { level: "finance" }, { ...ann, roles: ["finance"] }, "done"],
    ["an approver, at a custom level", {}, { level: "finance" }, ann, "denied"],
    [
      "a role that a level names",
      { levels: { finance: { roles: ["cfo"] } } },
      { level: "finance" },
      { ...ann, roles: ["cfo"] },
      "done",
    ],
    [
      "an administrator, at a level without that role",
      { levels: { finance: { roles: ["cfo"] } } },
      { level: "finance" },
      { ...ann, roles: ["admin"] },
      "denied",
    ],
  ];

  test.each(answers)("%s", async (_, approvals, rule, approver, expected) => {
    const { qm, paid } = await world(
      { policy: { approvals } },
      { requiresApproval: { autoApproveIf: "false", ...rule } },
    );
    const caller = { user: { id: "uma" }, person: "pat" };
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }, { caller }));

    expect(await codeOf(qm.approvals.answer(id, approved, approver))).toBe(expected);

    if (expected === "denied") {
      expect((await qm.approvals.get(id)).state).toBe("pending");
      const [refused] = await qm.ledger.read({ type: "approval.refused" });
      expect(refused?.data).toMatchObject({ approvalId: id, by: approver.id });
    } else await ended(qm, id);
    expect(paid).toHaveLength(expected === "done" ? 1 : 0);
  });

  test("accepts one of many concurrent answers, and names it to the others", async () => {
    const { qm, paid } = await world();
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    const people = Array.from({ length: 10 }, (_, at) => ({ ...ann, id: `p${at}` }));

    const told = await Promise.all(
      people.map((person, at) =>
        qm.approvals.answer(id, at % 2 === 0 ? approved : denied, person).then(
          () => "counted",
          ({ code, message }) => `${code} ${message}`,
        ),
      ),
    );

    expect(told.filter((each) => each === "counted")).toHaveLength(1);
    const winner = people[told.indexOf("counted")]?.id ?? "";
    for (const each of told.filter((one) => one !== "counted"))
      expect(each).toMatch(new RegExp(`^conflict .*by ${winner} via test`));
    const { answer } = await qm.approvals.get(id);
    const outcome = await ended(qm, id);
    expect(outcome.status).toBe(answer?.decision === "approved" ? "done" : "refused");
    expect(paid).toHaveLength(answer?.decision === "approved" ? 1 : 0);
  });

  test("rejects an unknown id", async () => {
    const { qm } = await world();
    expect(await codeOf(qm.approvals.answer("nothing", approved, ann))).toBe("not_found");
    expect(await codeOf(qm.approvals.get("nothing"))).toBe("not_found");
    expect(await codeOf(qm.approvals.outcome("nothing"))).toBe("not_found");
  });
});

describe("when approval is required", () => {
  const rules: readonly (readonly [string, QuartermasterOptions, object, string])[] = [
    ["never", {}, {}, "done"],
    ["always", {}, { requiresApproval: true }, "waiting user"],
    ["a condition that holds", {}, { requiresApproval: { autoApproveIf: "args.sum < 50.0" } }, "done"],
    [
      "a condition that does not hold",
      {},
      { requiresApproval: { autoApproveIf: "args.sum < 5.0", level: "admin" } },
      "waiting admin",
    ],
    ["a condition that fails", {}, { requiresApproval: { autoApproveIf: "args.none.of < 5.0" } }, "waiting user"],
    ["a function that returns auto", {}, { requiresApproval: () => "auto" }, "done"],
    ["a function that returns a level", {}, { requiresApproval: () => "finance" }, "waiting finance"],
    [
      "a function that throws",
      {},
      {
        requiresApproval: () => {
          throw new Error("no");
        },
      },
      "waiting admin",
    ],
    [
      "a function that returns an invalid value",
      {},
      { requiresApproval: () => undefined as unknown as string },
      "waiting admin",
    ],
    ["its category requires it", { policy: { approvals: { categories: { tool: true } } } }, {}, "waiting user"],
    [
      "its category requires it, and the action overrides that",
      { policy: { approvals: { categories: { tool: true } } } },
      { requiresApproval: false },
      "done",
    ],
    [
      "its category has a condition",
      { policy: { approvals: { categories: { tool: { autoApproveIf: "args.sum < 50.0" } } } } },
      {},
      "done",
    ],
    ["another category requires it", { policy: { approvals: { categories: { file: true } } } }, {}, "done"],
    [
      "a tag rule",
      { policy: { rules: [{ rule: "tool.effect == 'external'", effect: "ask", level: "finance" }] } },
      {},
      "waiting finance",
    ],
    [
      "two rules: the higher level counts",
      {
        policy: {
          rules: [
            { rule: "true", effect: "ask" },
            { rule: "true", effect: "ask", level: "admin" },
          ],
        },
      },
      { requiresApproval: true },
      "waiting admin",
    ],
    [
      "a rule that asks and a rule that denies",
      {
        policy: {
          rules: [
            { rule: "true", effect: "ask" },
            { rule: "true", effect: "deny" },
          ],
        },
      },
      {},
      "refused",
    ],
  ];

  test.each(rules)("%s", async (_, options, rule, expected) => {
    const { qm } = await world(options, rule);

    const outcome = await qm.invoke("tool__pay", { sum: 5 });

    expect(outcome.status === "waiting" ? `waiting ${outcome.approval.level}` : outcome.status).toBe(expected);
  });

  test("uses the shortest expiry of all rules", async () => {
    const { qm } = await world(
      { policy: { rules: [{ rule: "true", effect: "ask", expiresIn: "1h" }], approvals: { expiresIn: "2d" } } },
      { requiresApproval: { autoApproveIf: "false", expiresIn: "10m" } },
    );
    const outcome = await qm.invoke("tool__pay", { sum: 5 });
    const { requestedAt, expiresAt } = await qm.approvals.get(idOf(outcome));

    expect(Date.parse(expiresAt) - Date.parse(requestedAt)).toBe(10 * 60_000);
  });
});

describe("an approved call", () => {
  test.each<readonly [string, (qm: Quartermaster) => void, string]>([
    ["the policy changes", (qm) => qm.usePolicy({ rules: [{ rule: "false", effect: "deny" }] }), "approval_expired"],
    [
      "the actor loses the action",
      (qm) => qm.usePolicy({ actors: [{ name: "default", tools: ["approval__list"] }] }),
      "approval_expired",
    ],
    ["the actor is gone", (qm) => qm.usePolicy({ actors: [{ name: "other", tools: ["*"] }] }), "approval_expired"],
    ["a rule denies it", (qm) => qm.usePolicy({ rules: [{ rule: "true", effect: "deny" }] }), "approval_expired"],
    [
      "the definition changes",
      (qm) => {
        qm.unregister("pay");
        qm.register({
          name: "pay",
          description: "Pay a sum, twice.",
          inputSchema: { type: "object", properties: { sum: { type: "number" } } },
          scope: "generalist",
          effect: "external",
          requiresApproval: true,
          handler: () => expect.fail("it ran"),
        });
      },
      "approval_expired",
    ],
  ])("does not run when %s", async (_, change, code) => {
    const { qm, paid } = await world({ approvals: { worker: false } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);

    change(qm);
    await qm.approvals.run();

    expect(await ended(qm, id)).toMatchObject({ status: "refused", error: { code } });
    expect(paid).toEqual([]);
  });

  test("does not run with arguments that were changed in the store", async () => {
    const folder = mkdtempSync(join(tmpdir(), "qm-approvals-"));
    folders.push(folder);
    const store = join(folder, "store.db");
    const { qm, paid } = await world({ store, approvals: { worker: false } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);

    const db = await openSqlite(store);
    await db.all(sql`update approvals set args = ${'{"sum":500}'} where id = ${id}`);
    await db.close();
    await qm.approvals.run();

    expect(await ended(qm, id)).toMatchObject({ status: "refused", error: { code: "approval_expired" } });
    expect(paid).toEqual([]);
  });

  test("waits while its action is not registered", async () => {
    const { qm } = await world({ approvals: { worker: false } });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);
    qm.unregister("pay");

    expect(await qm.approvals.run()).toBe(0);
    expect((await qm.approvals.get(id)).state).toBe("approved");
  });

  test("is charged when it runs, and does not run without budget", async () => {
    const { qm, paid } = await world({ policy: { budgets: { session: { calls: 1 } } } });
    const ids = [];
    for (const sum of [1, 2]) ids.push(idOf(await qm.invoke("tool__pay", { sum })));
    for (const id of ids) await qm.approvals.answer(id, approved, ann);

    const outcomes = await Promise.all(ids.map((id) => ended(qm, id)));

    expect(outcomes.map(({ status }) => status).sort()).toEqual(["done", "refused"]);
    expect(paid).toHaveLength(1);
  });

  test("is not retried when it fails", async () => {
    let tries = 0;
    const { qm } = await world(
      {},
      {
        requiresApproval: true,
        handler: () => {
          tries++;
          throw new Error("the bank is shut");
        },
      },
    );
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    await qm.approvals.answer(id, approved, ann);

    expect(await ended(qm, id)).toMatchObject({ status: "failed", error: { code: "action_failed" } });
    await qm.approvals.run();
    expect(tries).toBe(1);
  });
});

describe("the caller", () => {
  test("awaits, lists and withdraws its calls with actions", async () => {
    const { qm, paid } = await world();
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));
    const other = idOf(await qm.invoke("tool__pay", { sum: 6 }));

    const waiting = await qm.invoke("approval__await", { approval_id: id, wait_ms: 0 });
    expect(waiting).toMatchObject({ status: "done", data: { status: "waiting", approval_id: id } });
    expect(await qm.invoke("approval__list")).toMatchObject({
      data: { waiting: [{ approval_id: id, action: "tool__pay" }, { approval_id: other }] },
    });

    const following = qm.invoke("approval__await", { approval_id: id, wait_ms: 20_000 });
    await qm.approvals.answer(id, approved, ann);
    expect(await following).toMatchObject({ status: "done", data: { status: "done", result: { paid: 5 } } });

    expect(await qm.invoke("approval__withdraw", { approval_id: other })).toMatchObject({ data: { state: "expired" } });
    expect(await codeOf(qm.approvals.answer(other, approved, ann))).toBe("approval_expired");
    expect(paid).toEqual([{ sum: 5 }]);
  });

  test("does not see the calls of other callers", async () => {
    const { qm } = await world({
      policy: {
        actors: [
          { name: "default", tools: ["*"] },
          { name: "other", tools: ["*"] },
        ],
      },
    });
    const id = idOf(await qm.invoke("tool__pay", { sum: 5 }));

    for (const caller of [{ actor: "other" }, { tenant: "t" }, { user: { id: "u" } }]) {
      for (const action of ["approval__await", "approval__withdraw"]) {
        const outcome = await qm.invoke(action, { approval_id: id }, { caller });
        expect(outcome).toMatchObject({ status: "failed", error: { code: "not_found" } });
      }
      expect(await qm.invoke("approval__list", {}, { caller })).toMatchObject({
        data: { waiting: caller.user === undefined ? [] : expect.any(Array) },
      });
    }
  });

  test("has these actions only if a call can wait", async () => {
    const { qm } = await world({}, {});
    expect(qm.names()).toEqual(["tool__pay"]);

    qm.usePolicy({ rules: [{ rule: "tool.name == 'tool__pay'", effect: "ask" }] });

    expect(qm.names()).toEqual(["approval__await", "approval__list", "approval__withdraw", "tool__pay"]);
  });
});

describe("asking during the call", () => {
  test("asks through the host", async () => {
    const asked: unknown[] = [];
    const { qm, paid } = await world({
      approvals: {
        ask: async ({ action, args }) => {
          asked.push({ action, args });
          return { decision: "approved", by: "host", roles: ["approver"] };
        },
      },
    });

    expect(await qm.invoke("tool__pay", { sum: 5 })).toMatchObject({ status: "done", data: { by: "host" } });
    expect(asked).toEqual([{ action: "tool__pay", args: { sum: 5 } }]);
    // The outcome was delivered, so the same call is a new request.
    expect(await qm.invoke("tool__pay", { sum: 5 })).toMatchObject({ status: "done" });
    expect(paid).toHaveLength(2);
    const decided = (await qm.ledger.read({ type: "call.decided" })).map(({ data }) => data);
    expect(decided.filter((data) => (data as JsonObject).approvalId !== undefined)).toHaveLength(2);
  });

  test.each<readonly [string, NonNullable<NonNullable<QuartermasterOptions["approvals"]>["ask"]>]>([
    ["returns nothing", async () => undefined],
    ["fails", async () => Promise.reject(new Error("nobody at home"))],
    [
      "throws",
      () => {
        throw new Error("nobody at home");
      },
    ],
    ["lacks the role", async () => ({ decision: "approved", by: "host", roles: ["viewer"] })],
  ])("leaves the call waiting when the host's ask %s", async (_, ask) => {
    const { qm, paid } = await world({ approvals: { ask } });

    expect((await qm.invoke("tool__pay", { sum: 5 })).status).toBe("waiting");
    expect(paid).toEqual([]);
  });

  test("accepts a faster answer from another channel, and refuses the late one", async () => {
    let answer: ((answer: { decision: "denied"; by: string }) => void) | undefined;
    const problems: string[] = [];
    const { qm, paid } = await world({
      onProblem: (problem) => problems.push(problem),
      approvals: {
        ask: () =>
          new Promise((resolve) => {
            answer = resolve;
          }),
      },
    });

    const call = qm.invoke("tool__pay", { sum: 5 });
    await expect.poll(async () => (await qm.approvals.list({ state: "pending" })).length).toBe(1);
    const [waiting] = await qm.approvals.list();
    await qm.approvals.answer(waiting?.id ?? "", approved, ann);

    expect(await call).toMatchObject({ status: "done", data: { by: "ann" } });
    answer?.({ decision: "denied", by: "host" });
    await expect.poll(async () => (await qm.ledger.read({ type: "approval.refused" })).length).toBe(1);
    expect(paid).toHaveLength(1);
    expect(problems).toEqual([]);
  });

  const dialogue = (
    answer: () => Promise<JsonObject>,
    capabilities: JsonObject = { elicitation: { form: {} } },
  ): Dialogue => ({
    owner: "client",
    capabilities,
    progress: () => {},
    log: () => {},
    ask: async (questions) => {
      expect(Object.values(questions)[0]?.params.message).toContain("tool__pay");
      return { approve: await answer() };
    },
  });

  test.each<readonly [string, JsonObject, string]>([
    ["approves", { action: "accept", content: { decision: "approve" } }, "done"],
    ["denies", { action: "accept", content: { decision: "deny", reason: "no" } }, "tool_denied"],
    ["declines", { action: "decline" }, "tool_denied"],
    ["cancels", { action: "cancel" }, "waiting"],
    ["gives an invalid answer", { action: "accept", content: { decision: "perhaps" } }, "waiting"],
    ["gives an empty answer", {}, "waiting"],
  ])("the person at the client %s", async (_, answer, expected) => {
    const { qm, paid } = await world();

    const outcome = await qm.invoke("tool__pay", { sum: 5 }, { dialogue: dialogue(async () => answer) });

    expect("error" in outcome ? outcome.error.code : outcome.status).toBe(expected);
    expect(paid).toHaveLength(expected === "done" ? 1 : 0);
  });

  const unasked: readonly (readonly [string, QuartermasterOptions, object, object, JsonObject | undefined])[] = [
    ["does not support forms", {}, {}, {}, {}],
    ["supports only URLs", {}, {}, {}, { elicitation: { url: {} } }],
    ["the policy excludes", { policy: { approvals: { askClient: false } } }, {}, {}, undefined],
    ["is not an administrator, at level admin", {}, { level: "admin" }, {}, undefined],
    ["is the user of the call", {}, {}, { user: { id: "uma" } }, undefined],
  ];

  test.each(unasked)("the person at a client that %s is not asked", async (_, options, rule, caller, capabilities) => {
    const { qm } = await world(options, { requiresApproval: { autoApproveIf: "false", ...rule } });
    let asked = 0;
    const counting = dialogue(async () => {
      asked++;
      return { action: "cancel" };
    }, capabilities);

    expect((await qm.invoke("tool__pay", { sum: 5 }, { caller, dialogue: counting })).status).toBe("waiting");
    expect(asked).toBe(0);
  });

  test("withdraws the request of a caller that cancels, but not of one that disconnects", async () => {
    const { qm, paid } = await world();
    const never = dialogue(() => new Promise(() => {}));
    for (const [sum, reason, state] of [
      [1, undefined, "expired"],
      [2, createLeftOpenError("nobody was there"), "pending"],
    ] as const) {
      const controller = new AbortController();
      const call = qm.invoke("tool__pay", { sum }, { dialogue: never, signal: controller.signal });
      await expect.poll(async () => (await qm.approvals.list({ state: "pending" })).length).toBe(1);
      const [waiting] = await qm.approvals.list({ state: "pending" });

      controller.abort(reason);

      expect(await call).toMatchObject({ status: "failed", error: { code: "cancelled" } });
      expect((await qm.approvals.get(waiting?.id ?? "")).state).toBe(state);
    }
    expect(paid).toEqual([]);
  });
});

test("records one end for a call that another process runs while this one waits", async () => {
  const folder = mkdtempSync(join(tmpdir(), "qm-approvals-"));
  folders.push(folder);
  const store = join(folder, "store.db");
  const here = await world({ store, approvals: { worker: false, ask: () => new Promise(() => {}) } });
  const there = await world({ store, approvals: { worker: false } });

  const call = here.qm.invoke("tool__pay", { sum: 5 });
  await expect.poll(async () => (await there.qm.approvals.list({ state: "pending" })).length).toBe(1);
  const [waiting] = await there.qm.approvals.list();
  await there.qm.approvals.answer(waiting?.id ?? "", approved, ann);
  await there.qm.approvals.run(waiting?.id);

  const outcome = await call;
  expect(outcome).toMatchObject({ status: "done", data: { paid: 5 } });
  expect([...here.paid, ...there.paid]).toHaveLength(1);
  const ends = await there.qm.ledger.read({ callId: outcome.callId, type: "call.ended" });
  expect(ends).toHaveLength(1);
});

describe("nested calls", () => {
  test("wait separately in parallel, and the outer call ends when it is repeated after the last answer", async () => {
    const { qm, paid } = await world();
    qm.register({
      name: "payAll",
      description: "Pay several sums.",
      inputSchema: { type: "object", properties: {} },
      scope: "generalist",
      effect: "external",
      async handler(_, { invoke }) {
        const outcomes = await Promise.all([1, 2, 3].map((sum) => invoke("tool__pay", { sum })));
        const statuses = outcomes.map(({ status }) => status);
        return statuses.includes("waiting") ? { statuses, continue_with: {} } : statuses;
      },
    });

    const call = await qm.invoke("tool__payAll");
    const pending = await qm.approvals.list({ state: "pending" });
    expect(pending).toHaveLength(3);
    expect(pending.map(({ id }) => id)).toContain(idOf(call));
    expect(call).toMatchObject({
      approval: { inner: "tool__pay" },
      progress: { statuses: ["waiting", "waiting", "waiting"] },
    });
    for (const { id, args } of pending) {
      await qm.approvals.answer(id, (args as JsonObject).sum === 2 ? denied : approved, ann);
      await expect.poll(async () => (await qm.approvals.get(id)).state).toMatch(/done|denied/);
    }

    expect(await qm.invoke("tool__payAll")).toMatchObject({ status: "done", data: ["done", "refused", "done"] });
    expect(paid).toHaveLength(2);
  });
});
