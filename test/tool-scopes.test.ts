import { afterEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import {
  annotate,
  createQuartermaster,
  QmError,
  type Quartermaster,
  type QuartermasterOptions,
  type RoutableEvent,
} from "../src/index.ts";

const open: Quartermaster[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((qm) => qm.close()));
});

const triage = { actor: "triage", session: "s", turn: "t" };
const owned = { scope: "specialist", justification: "Only triage reads this mailbox." } as const;
const inline = { routing: "bypass", bypassRouting: { reason: "It lives inside the actor's connection." } } as const;
const common = { description: "Searches.", inputSchema: z.object({ words: z.string() }), effect: "read" } as const;

/** A quartermaster with the actors `triage` and `other`, and what is heard of the calls by each of them and by all. */
async function createQm(options: QuartermasterOptions = {}, tools: readonly string[] = []) {
  const actors = [
    { name: "triage", tools: ["*", ...tools] },
    { name: "other", tools: ["*"] },
  ];
  const qm = await createQuartermaster({ policy: { actors }, ...options });
  open.push(qm);
  const heard: Record<string, RoutableEvent[]> = { all: [], triage: [], other: [] };
  qm.router.subscribe({}, (event) => heard.all?.push(event));
  for (const actor of ["triage", "other"]) qm.router.subscribe({ actor }, (event) => heard[actor]?.push(event));
  const countHeard = () => Object.fromEntries(Object.entries(heard).map(([who, events]) => [who, events.length]));
  return { qm, heard, countHeard };
}

const readEvents = async (qm: Quartermaster, type: string) => {
  await qm.ledger.flush();
  return qm.ledger.read({ session: "s", type });
};

describe("a call", () => {
  test("of a generalist reaches every subscriber", async () => {
    const { qm, heard, countHeard } = await createQm();
    qm.register({ ...common, name: "look", scope: "generalist", handler: () => "found" });

    await qm.invoke("tool__look", { words: "rent" }, { caller: triage });
    await vi.waitFor(() => expect(countHeard()).toEqual({ all: 2, triage: 2, other: 0 }), 10_000);

    expect(heard.all).toMatchObject([
      { source: "actor:triage", type: "tool_call:tool__look", data: { words: "rent" }, caller: triage },
      { source: "actor:triage", type: "tool_result:tool__look", data: { status: "done" } },
    ]);
  });

  test("of a generalist is distributed, and the model gets its own view", async () => {
    const seen = new Map<string, unknown>();
    const names = ["ui", "cache", "audit", "peer-response", "formatter:mail"] as const;
    const destinations = Object.fromEntries(names.map((name) => [name, (view: unknown) => void seen.set(name, view)]));
    const { qm } = await createQm({ destinations });
    const record = { name: "Ann", iban: "DE-1", note: "private" };
    qm.register({
      ...common,
      name: "look",
      scope: "generalist",
      handler: () => annotate(record, { iban: { hidden: ["llm-session", "audit"] }, note: { hidden: ["cache"] } }),
    });
    const surface = await qm.surface(triage);

    const { data } = await surface.call("invoke_action", { action_name: "tool__look", args: { words: "Ann" } });
    await vi.waitFor(() => expect(seen.size).toBe(names.length), 10_000);

    expect(data).toEqual({ name: "Ann", note: "private" });
    expect(Object.fromEntries(seen)).toEqual({
      ui: record,
      cache: { name: "Ann", iban: "DE-1" },
      audit: { name: "Ann", note: "private" },
      "peer-response": record,
      "formatter:mail": record,
    });
  });

  test("of a routed specialist reaches its own actor, can be cancelled and is retried", async () => {
    const routing = [{ event: "tool_call:tool__mailbox", retry: { attempts: 2, backoffMs: 1 } }];
    const { qm, heard, countHeard } = await createQm({ routing }, ["mailbox"]);
    let tries = 0;
    qm.register({
      ...common,
      ...owned,
      name: "mailbox",
      handler({ words }) {
        if (words === "hang") return new Promise(() => {});
        if (++tries === 1) throw new QmError("server_failed", "not now");
        return "found";
      },
    });

    const retried = await qm.invoke("tool__mailbox", { words: "rent" }, { caller: triage });
    const hanging = qm.invoke("tool__mailbox", { words: "hang" }, { caller: triage });
    await vi.waitFor(() => expect(qm.router.underWay()).toHaveLength(1), 10_000);
    qm.router.cancel(qm.router.underWay()[0]?.callId ?? "");

    expect(retried).toMatchObject({ status: "done", data: "found" });
    expect(tries).toBe(2);
    expect(await hanging).toMatchObject({ status: "failed", error: { code: "cancelled" } });
    await vi.waitFor(() => expect(countHeard()).toEqual({ all: 0, triage: 4, other: 0 }), 10_000);
    expect(heard.triage?.[0]).toMatchObject({ type: "tool_call:tool__mailbox" });
  });

  test("of a specialist that bypasses routing reaches no subscriber", async () => {
    const { qm, countHeard } = await createQm({}, ["mailbox"]);
    const underWay: number[] = [];
    qm.register({
      ...common,
      ...owned,
      ...inline,
      name: "mailbox",
      handler: () => void underWay.push(qm.router.underWay().length),
    });
    qm.register({ ...common, name: "last", scope: "generalist", handler: () => 1 });

    await qm.invoke("tool__mailbox", { words: "rent" }, { caller: triage });
    await qm.invoke("tool__last", { words: "rent" }, { caller: triage });
    // The second call is announced in order, so an announcement of the first would be there by now.
    await vi.waitFor(() => expect(countHeard()).toEqual({ all: 2, triage: 2, other: 0 }), 10_000);

    expect(underWay).toEqual([0]);
    expect(await readEvents(qm, "specialist_execution")).toHaveLength(1);
  });
});

describe("calls", () => {
  const tools = [
    ["public", { scope: "generalist" }],
    ["routed", owned],
    ["inline", { ...owned, ...inline }],
  ] as const;
  const callAll = async () => {
    const { qm } = await createQm({}, ["routed", "inline"]);
    for (const [name, more] of tools)
      qm.register({ ...common, ...more, name, handler: () => `${name} `.repeat(10_000) });
    for (const [name] of tools) await qm.invoke(`tool__${name}`, { words: name }, { caller: triage });
    return qm;
  };

  test("have the scope and the routing of their tool in every decision", async () => {
    const decided = await readEvents(await callAll(), "call.decided");

    expect(decided.map(({ data }) => data)).toMatchObject([
      { action: "tool__public", scope: "generalist", routing: "routed" },
      { action: "tool__routed", scope: "specialist", routing: "routed" },
      { action: "tool__inline", scope: "specialist", routing: "bypass" },
    ]);
  });

  test("of specialists are recorded with their actor, arguments, cut result, duration and reason", async () => {
    const recorded = await readEvents(await callAll(), "specialist_execution");

    const facts = { status: "done", durationMs: expect.any(Number), scope: "specialist" };
    const { justification } = owned;
    expect(recorded.map(({ data }) => data)).toEqual([
      {
        ...facts,
        callId: expect.any(String),
        action: "tool__routed",
        args: { words: "routed" },
        result: { cut: expect.stringMatching(/^routed routed/) },
        routing: "routed",
        justification,
      },
      {
        ...facts,
        callId: expect.any(String),
        action: "tool__inline",
        args: { words: "inline" },
        result: { cut: expect.stringMatching(/^inline inline/) },
        routing: "bypass",
        justification,
        bypassReason: inline.bypassRouting.reason,
      },
    ]);
    for (const event of recorded) {
      expect(event).toMatchObject({ actor: "triage", session: "s", turn: "t", at: expect.any(String) });
      expect(JSON.stringify(event).length).toBeLessThan(10_000);
    }
  });
});
