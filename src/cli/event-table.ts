import { clip, getOwn, isRecord } from "../core/json.ts";
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
    { whole: listWholeColumns(out) },
  );
}

export function printLaterEvents(out: CommandOutput, events: readonly StoredEvent[]): void {
  const rows = events.map((event) => toRow(out, event, true));
  out.table(rows[0]?.map(() => "") ?? [], rows, { whole: listWholeColumns(out) });
}

/** All but the call, which is a prefix anyway, the actor and the details. */
function listWholeColumns(out: CommandOutput): readonly number[] {
  return isWide(out) ? [0, 1, 4, 5] : [0, 1, 3, 4];
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

function describeEvent(type: string, facts: Facts): string {
  const describe = getOwn(descriptions, type);
  return describe?.(facts) ?? clip(toText(facts.reason) ?? JSON.stringify(facts), MAX_TEXT);
}

type Facts = Readonly<Record<string, unknown>>;
const because = ({ reason }: Facts) => (reason === undefined ? "" : `: ${reason}`);
const byPerson = ({ server, tool, by }: Facts) => `${server}: ${tool}, by ${by}`;
const withReason = ({ server, reason }: Facts) => clip(`${server}: ${reason}`, MAX_TEXT);
const withLaunch = ({ server, launch }: Facts) => clip(`${server}: ${launch}`, MAX_TEXT);
const withChanges = (what: unknown, { added, removed, changed }: Facts) =>
  `${what}: ${added} added, ${removed} removed, ${changed} changed`;
const shortId = ({ approvalId }: Facts) => String(approvalId).slice(0, ID_LENGTH);

const descriptions: Readonly<Record<string, (facts: Facts) => string>> = {
  "call.received": ({ via, args }) => `by ${via}: ${clip(JSON.stringify(args) ?? "", MAX_TEXT)}`,
  "call.decided": ({ decision, layer, rule }) =>
    [decision, layer, rule].filter((part) => part !== undefined).join(", "),
  "call.ended": ({ status, code, durationMs }) =>
    `${status}${code === undefined ? "" : ` (${code})`}, ${durationMs} ms`,
  "call.suspended": (facts) => `waits for approval ${shortId(facts)}`,
  "call.resumed": (facts) => `approval ${shortId(facts)}, run by ${facts.executor}`,
  "approval.decided": (facts) => clip(`${facts.decision} by ${facts.by} (${facts.via})${because(facts)}`, MAX_TEXT),
  "approval.expired": (facts) => clip(`never runs${because(facts)}`, MAX_TEXT),
  "approval.interrupted": () => "its process ended; the action may have had its effect",
  "approval.refused": (facts) => clip(`answer of ${facts.by} (${facts.via}) rejected${because(facts)}`, MAX_TEXT),
  "approval.requested": ({ level, rule, expiresAt }) => `level ${level}, asked by ${rule}, until ${expiresAt}`,
  "catalog.changed": (facts) => withChanges(facts.category, facts),
  "client.connected": ({ client, transport, profile }) => `${client} over ${transport}, profile ${profile}`,
  "definition.accepted": byPerson,
  "definition.rejected": byPerson,
  "definition.withheld": ({ server, tool, reasons }) => `${server}: ${tool}, ${String(reasons)}`,
  "method.advanced": ({ skill, step, title }) => clip(`${skill}: finished step ${step}, ${title}`, MAX_TEXT),
  "method.continued": ({ skill, step }) => `${skill}: in step ${step}`,
  "method.ended": (facts) => clip(`${facts.skill}: ${facts.outcome}${because(facts)}`, MAX_TEXT),
  "method.started": ({ skill, steps, budget }) => `${skill}: ${steps} steps, at most ${budget} requests`,
  "model.called": ({ model, inputTokens, outputTokens, code, durationMs }) =>
    `${model}: ${code ?? `${inputTokens} tokens read, ${outputTokens} written`}, ${durationMs} ms`,
  "server.failed": withReason,
  "server.stopped": withReason,
  "server.learned": (facts) => withChanges(facts.server, facts),
  "server.started": withLaunch,
  "server.added": withLaunch,
  "skill.trusted": ({ skill, digest, by }) => `${skill} ${String(digest).slice(0, ID_LENGTH)}, by ${by}`,
  "skill.withheld": ({ skill, reason }) => clip(`${skill}: ${reason}`, MAX_TEXT),
  "tool.refused": ({ skill, step, tool }) => clip(`${skill}: ${tool} is not a tool of step ${step}`, MAX_TEXT),
  "config.loaded": ({ path, policyVersion }) => `${path}, policy ${policyVersion}`,
};

function toText(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
