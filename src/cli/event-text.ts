import { clip, isRecord } from "../core/json.ts";
import type { StoredEvent } from "../ledger/event-store.ts";
import type { Output } from "./output.ts";
import type { Cell } from "./table.ts";

export const eventColumns = ["when", "session", "actor", "event", "action", "what"] as const;

const ARGS_LIMIT = 120;

/** One line of the ledger as a row. */
export function eventRow(out: Output, event: StoredEvent): readonly Cell[] {
  const { at, session, actor, type, action, data } = event;
  const facts = isRecord(data) ? data : {};
  const status = facts.status ?? facts.decision;
  return [
    at.slice(0, 19).replace("T", " "),
    session,
    actor ?? "-",
    type,
    action ?? textOf(facts.asked) ?? "-",
    { text: whatOf(type, facts), paint: status === undefined ? out.dim : paintOf(out, String(status)) },
  ];
}

function paintOf(out: Output, status: string): (text: string) => string {
  if (status === "done" || status === "allow") return out.good;
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
    case "catalog.changed":
      return `${facts.category}: ${facts.added} added, ${facts.removed} removed, ${facts.changed} changed`;
    case "config.loaded":
      return `${facts.path}, policy ${facts.policyVersion}`;
    default:
      return clip(textOf(facts.reason) ?? JSON.stringify(facts), ARGS_LIMIT);
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
