import { clip, isRecord } from "../core/json.ts";
import type { StoredEvent } from "../ledger/event-store.ts";
import type { CommandOutput, TableCell } from "./output.ts";

const MAX_TEXT = 120;
/** A prefix of the call id that holds the time in milliseconds: enough for `--call`. */
const ID_LENGTH = 13;

/** Prints events as a table. If all are of one day, the day stands in the head. Times are UTC. */
export function printEventTable(out: CommandOutput, events: readonly StoredEvent[]): void {
  const days = new Set(events.map(({ at }) => at.slice(0, 10)));
  const [day = "when"] = days;
  const isOneDay = days.size === 1;
  out.table(
    [isOneDay ? day : "when", "session", ...(isWide(out) ? ["call"] : []), "actor", "event", "action", "details"],
    events.map((event) => toRow(out, event, isOneDay)),
  );
}

export function printLaterEvents(out: CommandOutput, events: readonly StoredEvent[]): void {
  const rows = events.map((event) => toRow(out, event, true));
  out.table(rows[0]?.map(() => "") ?? [], rows);
}

function isWide({ width }: CommandOutput): boolean {
  return width === undefined || width >= 100;
}

function toRow(out: CommandOutput, event: StoredEvent, isTimeOnly: boolean): readonly TableCell[] {
  const { at, session, callId, actor, type, action, data } = event;
  const facts = isRecord(data) ? data : {};
  const status = facts.status ?? facts.decision;
  return [
    isTimeOnly ? at.slice(11, 19) : `${at.slice(0, 10)} ${at.slice(11, 19)}`,
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
  const { decision, status, server, tool, by, via, added, removed, changed } = facts;
  const reason = facts.reason === undefined ? "" : `: ${facts.reason}`;
  const approval = String(facts.approvalId).slice(0, ID_LENGTH);
  switch (type) {
    case "call.received":
      return `by ${via}: ${clip(JSON.stringify(facts.args) ?? "", MAX_TEXT)}`;
    case "call.decided":
      return [decision, facts.layer, facts.rule].filter((part) => part !== undefined).join(", ");
    case "call.ended":
      return `${status}${facts.code === undefined ? "" : ` (${facts.code})`}, ${facts.durationMs} ms`;
    case "approval.decided":
      return clip(`${decision} by ${by} (${via})${reason}`, MAX_TEXT);
    case "approval.expired":
      return clip(`never runs${reason}`, MAX_TEXT);
    case "approval.interrupted":
      return "its process ended; the action may have had its effect";
    case "approval.refused":
      return clip(`answer of ${by} (${via}) rejected${reason}`, MAX_TEXT);
    case "approval.requested":
      return `level ${facts.level}, asked by ${facts.rule}, until ${facts.expiresAt}`;
    case "call.suspended":
      return `waits for approval ${approval}`;
    case "call.resumed":
      return `approval ${approval}, run by ${facts.executor}`;
    case "catalog.changed":
      return `${facts.category}: ${added} added, ${removed} removed, ${changed} changed`;
    case "client.connected":
      return `${facts.client} over ${facts.transport}, profile ${facts.profile}`;
    case "definition.accepted":
    case "definition.rejected":
      return `${server}: ${tool}, by ${by}`;
    case "definition.withheld":
      return `${server}: ${tool}, ${String(facts.reasons)}`;
    case "server.failed":
    case "server.stopped":
      return clip(`${server}: ${facts.reason}`, MAX_TEXT);
    case "server.learned":
      return `${server}: ${added} added, ${removed} removed, ${changed} changed`;
    case "server.started":
    case "server.added":
      return clip(`${server}: ${facts.launch}`, MAX_TEXT);
    case "config.loaded":
      return `${facts.path}, policy ${facts.policyVersion}`;
    default:
      return clip(toText(facts.reason) ?? JSON.stringify(facts), MAX_TEXT);
  }
}

function toText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
