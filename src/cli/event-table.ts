import { clip, isRecord } from "../core/json.ts";
import type { StoredEvent } from "../ledger/event-store.ts";
import type { CommandOutput, TableCell } from "./output.ts";

const ARGS_LIMIT = 120;

/** Of a call's id: the part that is the time in milliseconds, enough for `--call`. */
const ID_LENGTH = 13;
const WIDE = 100;

/** Lines of the ledger as a table. The day is said once, at its head, when all are of one; times are UTC. */
export function printEventTable(out: CommandOutput, events: readonly StoredEvent[]): void {
  const days = new Set(events.map(formatDay));
  const [day = "when"] = days;
  const isOneDay = days.size === 1;
  out.table(
    [isOneDay ? day : "when", ...listColumns(out)],
    events.map((event) => [
      isOneDay ? formatTime(event) : `${formatDay(event)} ${formatTime(event)}`,
      ...toCells(out, event),
    ]),
  );
}

/** The same without a head, for what comes later. */
export function printLaterEvents(out: CommandOutput, events: readonly StoredEvent[]): void {
  out.table(
    ["", ...listColumns(out).map(() => "")],
    events.map((event) => [formatTime(event), ...toCells(out, event)]),
  );
}

function formatDay({ at }: StoredEvent): string {
  return at.slice(0, 10);
}

function formatTime({ at }: StoredEvent): string {
  return at.slice(11, 19);
}

function listColumns(out: CommandOutput): readonly string[] {
  return ["session", ...(isWide(out) ? ["call"] : []), "actor", "event", "action", "what"];
}

function isWide({ width }: CommandOutput): boolean {
  return width === undefined || width >= WIDE;
}

function toCells(out: CommandOutput, event: StoredEvent): readonly TableCell[] {
  const { session, callId, actor, type, action, data } = event;
  const facts = isRecord(data) ? data : {};
  const status = facts.status ?? facts.decision;
  return [
    session,
    ...(isWide(out) ? [callId?.slice(0, ID_LENGTH) ?? "-"] : []),
    actor ?? "-",
    type,
    action ?? toText(facts.asked) ?? "-",
    { text: describeEvent(type, facts), paint: status === undefined ? out.dim : getStatusPaint(out, String(status)) },
  ];
}

function getStatusPaint(out: CommandOutput, status: string): (text: string) => string {
  if (status === "done" || status === "allow" || status === "approved") return out.good;
  return status === "failed" ? out.bad : out.warn;
}

function describeEvent(type: string, facts: Record<string, unknown>): string {
  switch (type) {
    case "call.received":
      return `by ${facts.via}: ${clip(JSON.stringify(facts.args) ?? "", ARGS_LIMIT)}`;
    case "call.decided":
      return [facts.decision, facts.layer, facts.rule].filter((part) => part !== undefined).join(", ");
    case "call.ended":
      return `${facts.status}${facts.code === undefined ? "" : ` (${facts.code})`}, ${facts.durationMs} ms`;
    case "approval.decided":
      return clip(`${facts.decision} by ${formatApprover(facts)}${formatReason(facts)}`, ARGS_LIMIT);
    case "approval.expired":
      return clip(`never runs${formatReason(facts)}`, ARGS_LIMIT);
    case "approval.interrupted":
      return "its process is gone; it may have had its effect";
    case "approval.refused":
      return clip(`not taken from ${formatApprover(facts)}${formatReason(facts)}`, ARGS_LIMIT);
    case "approval.requested":
      return `level ${facts.level}, asked by ${facts.rule}, until ${facts.expiresAt}`;
    case "call.suspended":
      return `waits for approval ${shortenApprovalId(facts)}`;
    case "call.resumed":
      return `approval ${shortenApprovalId(facts)}, run by ${facts.executor}`;
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
      return clip(toText(facts.reason) ?? JSON.stringify(facts), ARGS_LIMIT);
  }
}

function formatApprover({ by, via }: Record<string, unknown>): string {
  return `${by} (${via})`;
}

function formatReason({ reason }: Record<string, unknown>): string {
  return reason === undefined ? "" : `: ${reason}`;
}

function shortenApprovalId({ approvalId }: Record<string, unknown>): string {
  return String(approvalId).slice(0, ID_LENGTH);
}

function toText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
