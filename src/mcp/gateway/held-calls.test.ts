import { expect, test, vi } from "vitest";
import { type Gate, MODERN, openGate } from "./testing.ts";

const META = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
};

interface Reply {
  readonly error?: { readonly code: number; readonly message: string };
  readonly result?: {
    readonly resultType: string;
    readonly inputRequests?: Readonly<Record<string, { readonly params: { readonly message: string } }>>;
    readonly requestState?: string;
    readonly structuredContent?: unknown;
  };
}

interface Asking {
  readonly args?: object;
  readonly more?: object;
  readonly token?: string;
}

/** One request of a stateless client. */
async function call(gate: Gate, { args = {}, more = {}, token = "t" }: Asking = {}): Promise<Reply> {
  const params = { name: "invoke_action", arguments: { action_name: "tool__greet", args }, ...more, _meta: META };
  const headers = {
    authorization: `Bearer ${token}`,
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": "invoke_action",
  };
  const response = await gate.post({ jsonrpc: "2.0", id: 1, method: "tools/call", params }, headers);
  return (await response.json()) as Reply;
}

const name = { who: { action: "accept", content: { name: "Ada" } } };
const colour = { how: { action: "accept", content: { colour: "blue" } } };

function stateOf({ result }: Reply): string {
  return result?.requestState ?? "none";
}

test("a question ends the request, and the next request continues the call", async () => {
  const gate = await openGate();

  const first = await call(gate);
  const second = await call(gate, { more: { inputResponses: name, requestState: stateOf(first) } });
  const third = await call(gate, { more: { inputResponses: colour, requestState: stateOf(second) } });

  expect(first.result).toMatchObject({ resultType: "input_required" });
  expect(first.result?.inputRequests?.who?.params.message).toBe("Your name?");
  expect(Object.keys(second.result?.inputRequests ?? {})).toEqual(["how"]);
  expect(third.result).toMatchObject({ resultType: "complete", structuredContent: { ...name, ...colour } });
});

test("ignores answers in the first request, because nothing was asked yet", async () => {
  const gate = await openGate();

  const first = await call(gate, { more: { inputResponses: { ...name, extra: { action: "cancel" } } } });

  expect(Object.keys(first.result?.inputRequests ?? {})).toEqual(["who"]);
});

test("ignores answers to a question that comes later", async () => {
  const gate = await openGate();
  const first = await call(gate);

  const second = await call(gate, {
    more: { inputResponses: { ...name, ...colour }, requestState: stateOf(first) },
  });

  expect(Object.keys(second.result?.inputRequests ?? {})).toEqual(["how"]);
});

test.each([
  ["none", {}],
  ["under another name", { whom: name.who }],
  ["that is a number", { who: 5 }],
  ["of another kind", { who: { roots: [] } }],
])("asks again for an answer %s", async (_which, inputResponses) => {
  const gate = await openGate();
  const first = await call(gate);

  const again = await call(gate, { more: { inputResponses, requestState: stateOf(first) } });
  const then = await call(gate, { more: { inputResponses: name, requestState: stateOf(again) } });

  expect(Object.keys(again.result?.inputRequests ?? {})).toEqual(["who"]);
  expect(Object.keys(then.result?.inputRequests ?? {})).toEqual(["how"]);
});

test("accepts a state once", async () => {
  const gate = await openGate();
  const first = await call(gate);
  const more = { inputResponses: name, requestState: stateOf(first) };

  const [one, other] = await Promise.all([call(gate, { more }), call(gate, { more })]);
  const late = await call(gate, { more });

  expect([one.error?.code, other.error?.code].filter((code) => code !== undefined)).toEqual([-32602]);
  expect(late.error?.code).toBe(-32602);
});

test("refuses a state of another client or request, and a changed one", async () => {
  const gate = await openGate({ profiles: { t: {}, u: { name: "other" }, v: {} } });
  const first = await call(gate);
  const more = { inputResponses: name, requestState: stateOf(first) };

  const replies = [
    await call(gate, { more, token: "u" }),
    await call(gate, { more, token: "v" }),
    await call(gate, { more, args: { name: "another" } }),
    await call(gate, { more: { ...more, requestState: `${more.requestState}x` } }),
    await call(gate, { more: { ...more, requestState: more.requestState.replace(/^./, "A") } }),
    await call(gate, { more: { ...more, requestState: "a.b" } }),
    await call(gate, { more: { ...more, requestState: "" } }),
    await call(gate, { more: { ...more, requestState: "x".repeat(100_000) } }),
  ];

  expect(replies.map(({ error }) => error?.code)).toEqual(replies.map(() => -32602));
  // The right client can still use it.
  expect((await call(gate, { more })).result?.resultType).toBe("input_required");
});

test("cancels a call whose question is not answered in time", async () => {
  const gate = await openGate({ limits: { questionMs: 50 } });

  const first = await call(gate);

  await vi.waitFor(async () => {
    expect(await gate.qm.ledger.read({ type: "call.ended" })).toMatchObject([
      { data: { status: "failed", code: "cancelled" } },
    ]);
  });
  const late = await call(gate, { more: { inputResponses: name, requestState: stateOf(first) } });
  expect(late.error?.code).toBe(-32602);
});

test("limits the calls that wait for an answer", async () => {
  const gate = await openGate({ limits: { heldCalls: 3, heldCallsEach: 2 }, profiles: { t: {}, u: {}, v: {} } });

  const mine = [await call(gate), await call(gate), await call(gate)];
  const others = [await call(gate, { token: "u" }), await call(gate, { token: "v" })];

  const typeOf = ({ result }: Reply) => result?.structuredContent ?? result?.resultType;
  expect(mine.map(typeOf)).toMatchObject(["input_required", "input_required", { code: "overloaded" }]);
  expect(others.map(typeOf)).toMatchObject(["input_required", { code: "overloaded" }]);
});

test("closing the gateway cancels calls that wait for an answer", async () => {
  const gate = await openGate();
  await call(gate);

  await gate.gateway.close();

  await vi.waitFor(async () => {
    expect(await gate.qm.ledger.read({ type: "call.ended" })).toMatchObject([{ data: { code: "cancelled" } }]);
  });
});
