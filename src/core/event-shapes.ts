import { z } from "zod";
import { effects } from "./action.ts";

const text = z.string();
const texts = z.array(text);
const count = z.number();
const optionalText = text.optional();
const any = z.unknown();
const call = { callId: text };
const approval = { ...call, approvalId: text, action: text };
const method = { ...call, run: text, skill: text, step: count };
const answered = { by: text, via: text };
const resource = { ...call, handle: text };
const tool = { server: text, tool: text, hash: text };
const searched = { requested: text, effective: text, actions: texts };
const scoped = { scope: text, routing: text };
const all = <Schema, const Name extends string>(schema: Schema, ...names: Name[]) =>
  Object.fromEntries(names.map((name) => [name, schema])) as Record<Name, Schema>;
const justified = { justification: optionalText, bypassReason: optionalText };

/** Every event: `<noun>.<past participle>`, an object, one shape for ever. A test compares `docs/events.md` with it. */
export const eventShapes = {
  "action.activated": z.object({ ...call, action: text, scope: z.enum(["run", "session"]) }),
  "action.registered": z.object({ action: text, site: text, ...scoped, ...justified }),
  "actions.fetched": z.object({ requested: texts, returned: texts }),
  "activation.denied": z.object({ ...call, asked: text, reason: text }),
  "approval.decided": z.object({
    ...approval,
    decision: z.enum(["approved", "denied"]),
    ...answered,
    ...all(optionalText, "binding", "reason"),
  }),
  "approval.expired": z.object({ ...approval, reason: text }),
  "approval.interrupted": z.object(approval),
  "approval.refused": z.object({ ...approval, ...answered, reason: text }),
  "approval.requested": z.object({
    ...approval,
    ...all(text, "definition", "level", "rule", "binding", "policyVersion", "expiresAt"),
  }),
  "approval.revealed": z.object({ ...approval, ...answered, names: texts }),
  "arguments.filled": z.object({
    ...call,
    action: text,
    from: z.array(z.object({ at: text, handle: text, path: optionalText, version: count, hash: optionalText })),
    args: any,
  }),
  /** `args`: all arguments, set when some were brought into their normal form. */
  "arguments.repaired": z.object({ ...call, action: text, repairs: texts, args: any.optional() }),
  "call.decided": z.object({
    ...call,
    action: text,
    definition: text,
    effect: z.enum(effects),
    ...scoped,
    decision: z.enum(["allow", "ask", "deny"]),
    ...all(optionalText, "layer", "rule", "approvalId"),
    usage: z
      .record(text, z.object({ ...all(count, "calls", "ms", "bytes"), ...all(count.optional(), "tokens", "cost") }))
      .optional(),
    policyVersion: text,
  }),
  "call.ended": z.object({
    ...call,
    action: optionalText,
    status: z.enum(["done", "failed", "refused"]),
    ...all(optionalText, "code", "reason"),
    ...all(count, "durationMs", "bytes"),
    result: any,
    ...all(optionalText, "resultHash", "ranAs", "kept"),
  }),
  "call.received": z.object({
    ...call,
    ...all(text, "asked", "via"),
    args: any,
    parent: optionalText,
    user: any.optional(),
  }),
  "call.resumed": z.object({ ...approval, executor: text, by: optionalText, via: optionalText }),
  "call.retried": z.object({ ...call, action: text, attempt: count, code: text, reason: text, delayMs: count }),
  "call.suspended": z.object(approval),
  "catalog.changed": z.object({ category: text, added: count, removed: count, changed: count }),
  "client.connected": z.object({ profile: text, client: text, protocol: text, transport: text }),
  "config.loaded": z.object({ path: text, policyVersion: text, loosened: texts.optional() }),
  "config.rejected": z.object({ path: text, reason: text }),
  "definition.accepted": z.object({ ...tool, by: text }),
  "definition.rejected": z.object({ ...tool, by: text }),
  "definition.withheld": z.object({ ...tool, reasons: texts }),
  /** A peer has taken a message of this call as a task. After a crash, the peer can be asked about the task. */
  "delegation.started": z.object({ ...call, action: text, task: text, hops: count }),
  "directory.rendered": z.object({ groups: texts, actions: count }),
  "distribution.failed": z.object({ ...call, action: text, destination: text, reason: text }),
  "embeddings.built": z.object({
    ...all(text, "model", "catalog"),
    embedded: texts,
    ...all(count, "embeddedCount", "reused", "durationMs"),
  }),
  "embeddings.cleared": z.object({ rows: count }),
  "embeddings.failed": z.object({ model: text, reason: text }),
  "event.routed": z.object({
    ...all(text, "source", "event", "eventId"),
    ...all(optionalText, "callId", "rule", "to", "privateTo"),
    subscribers: count,
  }),
  "hints.rendered": z.object({ query: text, ...searched }),
  /** Recorded with the removal, in the system's session. `chains`: the last removed line of each. */
  "ledger.pruned": z.object({
    before: text,
    events: count,
    chains: z.array(z.object({ session: text, seq: count, hash: text, whole: z.boolean().optional() })),
    archive: optionalText,
  }),
  "method.advanced": z.object({ ...method, title: text, requests: count }),
  "method.continued": z.object(method),
  "method.ended": z.object({
    ...method,
    outcome: text,
    ...all(optionalText, "code", "reason"),
    requests: count,
    exports: texts,
  }),
  "method.started": z.object({ ...call, run: text, skill: text, digest: text, steps: count, budget: count }),
  /** One request of a handler to a language model. `code`: it failed, or the budget refused it. */
  "model.called": z.object({
    ...call,
    model: text,
    ...all(count, "inputTokens", "outputTokens", "durationMs", "attempts"),
    cost: count.optional(),
    ...all(optionalText, "finish", "code", "requestHash", "answerHash"),
    request: any,
    answer: any,
  }),
  "name.repaired": z.object({ ...call, asked: text, action: text, how: z.enum(["alias", "respelled"]) }),
  "policy.filtered": z.object({ removed: texts, removedCount: count, left: count }),
  "provider.failed": z.object({ category: text, reason: text }),
  "resource.removed": z.object({ ...resource, notes: count, collections: count }),
  "resource.saved": z.object({ ...resource, reach: text, name: optionalText }),
  "resource.written": z.object({
    ...resource,
    version: count,
    bytes: count,
    count: count.optional(),
    hash: optionalText,
    name: optionalText,
  }),
  "resources.expired": z.object({ notes: count, collections: count }),
  "search.answered": z.object({ query: text, ...searched, unmatched: texts, note: optionalText }),
  "search.prepared": z.object({
    actions: count,
    semantic: text,
    embeddedCount: count.optional(),
    reused: count.optional(),
  }),
  "server.added": z.object({ server: text, launch: text, source: optionalText, by: text }),
  "server.failed": z.object({ server: text, reason: text }),
  "server.learned": z.object({ server: text, tools: count, added: count, removed: count, changed: count }),
  "server.removed": z.object({ server: text, by: text }),
  "server.started": z.object({ server: text, launch: text, pid: count.optional(), protocol: text, durationMs: count }),
  "server.stopped": z.object({ server: text, reason: z.enum(["asked", "idle", "closing", "ended"]) }),
  /** Older tool results were replaced by handles, and older turns by a summary, in what a model gets of a session. */
  "session.compacted": z.object({
    turnId: text,
    results: count,
    turns: count,
    tokensBefore: count,
    tokensAfter: count,
  }),
  "session.removed": z.object({ messages: count }),
  "skill.trusted": z.object({ skill: text, digest: text, by: text, source: text }),
  "skill.withheld": z.object({ skill: text, digest: text, reason: text }),
  specialist_execution: z.object({
    ...call,
    action: text,
    ...all(any, "args", "result"),
    status: text,
    durationMs: count,
    ...scoped,
    ...justified,
  }),
  "store.restored": z.object({ file: text, expired: count }),
  "surface.called": z.object({ surface: text, tool: text, args: any, ok: z.boolean(), code: optionalText }),
  "tool.refused": z.object({ ...method, tool: text }),
  "turn.ended": z.object({ turnId: text, state: z.enum(["complete", "failed", "cancelled"]) }),
  "turn.interrupted": z.object({ turnId: text, calls: count }),
  "turn.resumed": z.object({ turnId: text, calls: texts }),
  "turn.started": z.object({ turnId: text, model: text, parent: optionalText, hops: count.optional() }),
  "turn.suspended": z.object({ turnId: text, approvals: texts }),
} as const;
