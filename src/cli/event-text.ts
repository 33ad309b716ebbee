import { clip, isRecord } from "../core/json.ts";
import type { StoredEvent } from "../ledger/event-store.ts";
import type { Output } from "./output.ts";
import type { Cell } from "./table.ts";

const ARGS_LIMIT = 120;

/** Of a call's id: the part that is the time in milliseconds, enough for `--call`. */
const ID_LENGTH = 13;
const WIDE = 100;

/** Lines of the ledger as a table. The day is said once, at its head, when all are of one; times are UTC. */
export function eventTable(out: Output, events: readonly StoredEvent[]): void {
  const days = new Set(events.map(dayOf));
  const [day = "when"] = days;
  const isOneDay = days.size === 1;
  out.table(
    [isOneDay ? day : "when", ...columnsOf(out)],
    events.map((event) => [isOneDay ? timeOf(event) : `${dayOf(event)} ${timeOf(event)}`, ...cells(out, event)]),
  );
}

/** The same without a head, for what comes later. */
export function laterEvents(out: Output, events: readonly StoredEvent[]): void {
  out.table(
    ["", ...columnsOf(out).map(() => "")],
    events.map((event) => [timeOf(event), ...cells(out, event)]),
  );
}

function dayOf({ at }: StoredEvent): string {
  return at.slice(0, 10);
}

function timeOf({ at }: StoredEvent): string {
  return at.slice(11, 19);
}

function columnsOf(out: Output): readonly string[] {
  return ["session", ...(isWide(out) ? ["call"] : []), "actor", "event", "action", "what"];
}

function isWide({ width }: Output): boolean {
  return width === undefined || width >= WIDE;
}

function cells(out: Output, event: StoredEvent): readonly Cell[] {
  const { session, callId, actor, type, action, data } = event;
  const facts = isRecord(data) ? data : {};
  const status = facts.status ?? facts.decision;
  return [
    session,
    ...(isWide(out) ? [callId?.slice(0, ID_LENGTH) ?? "-"] : []),
    actor ?? "-",
    type,
    action ?? textOf(facts.asked) ?? "-",
    { text: whatOf(type, facts), paint: status === undefined ? out.dim : paintOf(out, String(status)) },
  ];
}

function paintOf(out: Output, status: string): (text: string) => string {
  if (status === "done" || status === "allow" || status === "approved") return out.good;
  return status === "failed" ? out.bad : out.warn;
}

function whatOf(type: string, facts: Record<string, unknown>): string {
  switch (type) {
    case "call.received":
      return `by ${facts.via}: ${clip(JSON.stringify(facts.args) ?? "", ARGS_LIMIT)}`;
    case "call.decided":
      return [facts.decision, facts.layer, facts.rule].filter((part) => part !== undefined).join(", ");
    case "call.ended":
      return `${facts.status}${facts.code === undefined ? "" : ` (${facts.code})`}, ${facts.durationMs} ms`;
    case "approval.decided":
      return clip(`${facts.decision} by ${whoOf(facts)}${becauseOf(facts)}`, ARGS_LIMIT);
    case "approval.expired":
      return clip(`never runs${becauseOf(facts)}`, ARGS_LIMIT);
    case "approval.interrupted":
      return "its process is gone; it may have had its effect";
    case "approval.refused":
      return clip(`not taken from ${whoOf(facts)}${becauseOf(facts)}`, ARGS_LIMIT);
    case "approval.requested":
      return `level ${facts.level}, asked by ${facts.rule}, until ${facts.expiresAt}`;
    case "call.suspended":
      return `waits for approval ${idOf(facts)}`;
    case "call.resumed":
      return `approval ${idOf(facts)}, run by ${facts.executor}`;
    case "catalog.changed":
      return `${facts.category}: ${facts.added} added, ${facts.removed} removed, ${facts.changed} changed`;
    case "client.connected":
      return `${facts.client} over ${facts.transport}, profile ${facts.profile}`;
    case "definition.accepted":
    case "definition.rejected":
      return `${facts.server}: ${facts.tool}, by ${facts.by}`;
    case "definition.withheld":
      return `${facts.server}: ${facts.tool}, ${String(facts.reasons)}`;
    case "server.failed":
    case "server.stopped":
      return clip(`${facts.server}: ${facts.reason}`, ARGS_LIMIT);
    case "server.learned":
      return `${facts.server}: ${facts.added} added, ${facts.removed} removed, ${facts.changed} changed`;
    case "server.started":
    case "server.added":
      return clip(`${facts.server}: ${facts.launch}`, ARGS_LIMIT);
    case "config.loaded":
      return `${facts.path}, policy ${facts.policyVersion}`;
    default:
      return clip(textOf(facts.reason) ?? JSON.stringify(facts), ARGS_LIMIT);
  }
}

function whoOf({ by, via }: Record<string, unknown>): string {
  return `${by} (${via})`;
}

function becauseOf({ reason }: Record<string, unknown>): string {
  return reason === undefined ? "" : `: ${reason}`;
}

function idOf({ approvalId }: Record<string, unknown>): string {
  return String(approvalId).slice(0, ID_LENGTH);
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
