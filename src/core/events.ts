import { z } from "zod";
import { effects } from "./action.ts";

const call = { callId: z.string() };
const approval = { ...call, approvalId: z.string(), action: z.string() };
const resource = { ...call, handle: z.string() };
const routed = { source: z.string(), event: z.string() };
const tool = { server: z.string(), tool: z.string(), hash: z.string() };
const searched = { requested: z.string(), effective: z.string(), actions: z.array(z.string()) };

/**
 * Every event, once: `<noun>.<past participle>`, an object, one shape for ever. `docs/events.md` is held to this. The
 * record of a specialist's work has the name that audits of such systems look for.
 */
export const eventShapes = {
  "action.activated": z.object({ ...call, action: z.string(), scope: z.enum(["run", "session"]) }),
  "action.registered": z.object({
    action: z.string(),
    site: z.string(),
    scope: z.string(),
    routing: z.string(),
    justification: z.string().optional(),
    bypassReason: z.string().optional(),
  }),
  "actions.fetched": z.object({ requested: z.array(z.string()), returned: z.array(z.string()) }),
  "activation.denied": z.object({ ...call, asked: z.string(), reason: z.string() }),
  "approval.decided": z.object({
    ...approval,
    decision: z.enum(["approved", "denied"]),
    by: z.string(),
    via: z.string(),
    binding: z.string().optional(),
    reason: z.string().optional(),
  }),
  "approval.expired": z.object({ ...approval, reason: z.string() }),
  "approval.interrupted": z.object(approval),
  "approval.refused": z.object({ ...approval, by: z.string(), via: z.string(), reason: z.string() }),
  "approval.requested": z.object({
    ...approval,
    definition: z.string(),
    level: z.string(),
    rule: z.string(),
    binding: z.string(),
    policyVersion: z.string(),
    expiresAt: z.string(),
  }),
  "approval.revealed": z.object({ ...approval, by: z.string(), via: z.string(), names: z.array(z.string()) }),
  "arguments.filled": z.object({
    ...call,
    action: z.string(),
    from: z.array(
      z.object({
        at: z.string(),
        handle: z.string(),
        path: z.string().optional(),
        version: z.number(),
        hash: z.string().optional(),
      }),
    ),
    args: z.unknown(),
  }),
  "arguments.repaired": z.object({
    ...call,
    action: z.string(),
    repairs: z.array(z.string()),
    /** Of arguments that were brought into their normal form: all of them, as they are decided upon. */
    args: z.unknown().optional(),
  }),
  "call.decided": z.object({
    ...call,
    action: z.string(),
    definition: z.string(),
    effect: z.enum(effects),
    scope: z.string(),
    routing: z.string(),
    decision: z.enum(["allow", "ask", "deny"]),
    layer: z.string().optional(),
    rule: z.string().optional(),
    approvalId: z.string().optional(),
    usage: z.record(z.string(), z.object({ calls: z.number(), ms: z.number(), bytes: z.number() })).optional(),
    policyVersion: z.string(),
  }),
  "call.ended": z.object({
    ...call,
    action: z.string().optional(),
    status: z.enum(["done", "failed", "refused"]),
    code: z.string().optional(),
    reason: z.string().optional(),
    durationMs: z.number(),
    bytes: z.number(),
    result: z.unknown(),
    resultHash: z.string().optional(),
    ranAs: z.string().optional(),
    kept: z.string().optional(),
  }),
  "call.received": z.object({
    ...call,
    asked: z.string(),
    via: z.string(),
    args: z.unknown(),
    parent: z.string().optional(),
    user: z.unknown().optional(),
  }),
  "call.resumed": z.object({
    ...approval,
    executor: z.string(),
    by: z.string().optional(),
    via: z.string().optional(),
  }),
  "call.retried": z.object({
    ...call,
    action: z.string(),
    attempt: z.number(),
    code: z.string(),
    reason: z.string(),
    delayMs: z.number(),
  }),
  "call.suspended": z.object(approval),
  "catalog.changed": z.object({ category: z.string(), added: z.number(), removed: z.number(), changed: z.number() }),
  "client.connected": z.object({
    profile: z.string(),
    client: z.string(),
    protocol: z.string(),
    transport: z.string(),
  }),
  "config.loaded": z.object({
    path: z.string(),
    policyVersion: z.string(),
    /** Of a reload: what is less strict than before. */
    loosened: z.array(z.string()).optional(),
  }),
  "config.rejected": z.object({ path: z.string(), reason: z.string() }),
  "definition.accepted": z.object({ ...tool, by: z.string() }),
  "definition.rejected": z.object({ ...tool, by: z.string() }),
  "definition.withheld": z.object({ ...tool, reasons: z.array(z.string()) }),
  "directory.rendered": z.object({ groups: z.array(z.string()), actions: z.number() }),
  "distribution.failed": z.object({ ...call, action: z.string(), destination: z.string(), reason: z.string() }),
  "embeddings.built": z.object({
    model: z.string(),
    catalog: z.string(),
    embedded: z.array(z.string()),
    embeddedCount: z.number(),
    reused: z.number(),
    durationMs: z.number(),
  }),
  "embeddings.cleared": z.object({ rows: z.number() }),
  "embeddings.failed": z.object({ model: z.string(), reason: z.string() }),
  "event.routed": z.object({
    ...routed,
    eventId: z.string(),
    callId: z.string().optional(),
    rule: z.string().optional(),
    to: z.string().optional(),
    privateTo: z.string().optional(),
    subscribers: z.number(),
  }),
  "hints.rendered": z.object({ query: z.string(), ...searched }),
  "name.repaired": z.object({ ...call, asked: z.string(), action: z.string(), how: z.enum(["alias", "respelled"]) }),
  "policy.filtered": z.object({ removed: z.array(z.string()), removedCount: z.number(), left: z.number() }),
  "provider.failed": z.object({ category: z.string(), reason: z.string() }),
  "resource.removed": z.object({ ...resource, notes: z.number(), collections: z.number() }),
  "resource.saved": z.object({ ...resource, reach: z.string(), name: z.string().optional() }),
  "resource.written": z.object({
    ...resource,
    version: z.number(),
    bytes: z.number(),
    count: z.number().optional(),
    hash: z.string().optional(),
    name: z.string().optional(),
  }),
  "resources.expired": z.object({ notes: z.number(), collections: z.number() }),
  "search.answered": z.object({
    query: z.string(),
    ...searched,
    unmatched: z.array(z.string()),
    note: z.string().optional(),
  }),
  "search.prepared": z.object({ actions: z.number(), semantic: z.string() }),
  "server.added": z.object({ server: z.string(), launch: z.string(), source: z.string().optional(), by: z.string() }),
  "server.failed": z.object({ server: z.string(), reason: z.string() }),
  "server.learned": z.object({
    server: z.string(),
    tools: z.number(),
    added: z.number(),
    removed: z.number(),
    changed: z.number(),
  }),
  "server.removed": z.object({ server: z.string(), by: z.string() }),
  "server.started": z.object({
    server: z.string(),
    launch: z.string(),
    pid: z.number().optional(),
    protocol: z.string(),
    durationMs: z.number(),
  }),
  "server.stopped": z.object({ server: z.string(), reason: z.enum(["asked", "idle", "closing", "ended"]) }),
  specialist_execution: z.object({
    ...call,
    action: z.string(),
    args: z.unknown(),
    result: z.unknown(),
    status: z.string(),
    durationMs: z.number(),
    scope: z.string(),
    routing: z.string(),
    justification: z.string().optional(),
    bypassReason: z.string().optional(),
  }),
  "surface.called": z.object({
    surface: z.string(),
    tool: z.string(),
    args: z.unknown(),
    ok: z.boolean(),
    code: z.string().optional(),
  }),
  "turn.ended": z.object({ turnId: z.string(), state: z.enum(["complete", "failed", "cancelled"]) }),
  "turn.resumed": z.object({ turnId: z.string(), calls: z.array(z.string()) }),
  "turn.suspended": z.object({ turnId: z.string(), approvals: z.array(z.string()) }),
} as const;

export type EventType = keyof typeof eventShapes;

/** What happened, before the ledger gives it a place in its session's chain. */
export type NewEvent = {
  [Type in EventType]: {
    readonly type: Type;
    readonly at: Date;
    readonly session: string;
    readonly actor?: string;
    readonly tenant?: string;
    readonly turn?: string;
    readonly user?: string;
    readonly person?: string;
    readonly data: z.input<(typeof eventShapes)[Type]>;
  };
}[EventType];

/** What happened, before it is said when and on whose behalf. */
export type UnstampedEvent<Types extends EventType = EventType> = {
  [Type in Types]: Pick<Extract<NewEvent, { type: Type }>, "type" | "data">;
}[Types];

/** An event that could name the whole catalog names so many actions, and says how many there are. */
export const EVENT_NAMES_LIMIT = 100;

/** The session of what no caller asked for: registrations, configuration, the catalog. */
export const SYSTEM_SESSION = "system";
