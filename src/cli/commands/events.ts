import { readFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { formatCount } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { readArchives } from "../../ledger/archive.ts";
import type { ChainHead, StoredEvent } from "../../ledger/event-store.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, followStore, inWorkspace, pause, toOwnerFilter, withWorkspace } from "../context.ts";
import { printEventTable, printLaterEvents } from "../event-table.ts";
import { createUsageError, exitCodes } from "../exit-codes.ts";
import { createWholeNumberParser, examples } from "../option-parsers.ts";
import { createFileReadError, createFileWriteError } from "../output-file.ts";
import { runPrune } from "./events/prune.ts";

type EventsOptions = Readonly<{ type?: string; action?: string; call?: string; limit: number; follow?: boolean }>;
const POLL_MS = 200;

export function addEventsCommand(program: Command, context: Context): void {
  const events = program
    .command("events")
    .summary("show the ledger; `events verify` checks it, `events prune` removes old events")
    .description("Show the newest events of the ledger, in the order in which they were written.")
    .option("--type <type>", "only events of this type, or with this prefix, for example `call.`")
    .option("--action <name>", "only events about this action")
    .option("--call <id>", "only the events of one call: its id, or at least the first 8 characters of a recent one")
    .option("--limit <n>", "show the newest N", createWholeNumberParser(1), 50)
    .option("--follow", "show new events until Ctrl-C; with --json one object per line")
    .addHelpText(
      ...examples("qm events --limit 10", "qm events --type call. --session local --follow", "qm events verify"),
    )
    .action((options: EventsOptions) =>
      options.follow
        ? followStore(context, POLL_MS, (workspace) => followEvents(context, workspace, options))
        : withWorkspace(context, "ledger", (workspace) => showEvents(context, workspace, options)),
    );
  events
    .command("verify")
    .summary("check that no event was changed, moved or removed")
    .description(
      "Check every session's hash chain. Anyone who can rewrite the whole store can also rewrite the chains: save the chain heads elsewhere with --save, and check against them later with --against.",
    )
    .option("--against <file>", "also check that the chains contain these saved heads")
    .option("--save <file>", "write the chain heads to this file if the check succeeds")
    .option("--archive <file...>", "also check these archives of removed events, oldest first")
    .addHelpText(
      ...examples(
        "qm events verify",
        "qm events verify --against heads.json --save heads.json",
        "qm events verify --archive ../old.jsonl",
      ),
    )
    .action(inWorkspace(context, "ledger", runVerify));
  events
    .command("prune")
    .summary("remove old events")
    .description(
      "Remove the events before a time, and record that in the ledger, so that `qm events verify` accepts it and still finds any other missing event. Events that open approvals and unfinished turns need stay. `ledger.keep` in the configuration does the same regularly.",
    )
    .requiredOption("--before <time>", "a date (2026-01-31), a time, or an age (90d)")
    .option("--archive <file>", "append the removed events to this file first, one JSON object a line")
    .option("--yes", "do not ask")
    .addHelpText(
      ...examples("qm events prune --before 90d --archive ../old.jsonl", "qm events prune --before 2026-01-31 --yes"),
    )
    .action(inWorkspace(context, "ledger", runPrune));
}

async function showEvents(context: Context, workspace: Workspace, options: EventsOptions): Promise<void> {
  const { out } = context;
  const { ledger } = workspace.quartermaster;
  const found = await ledger.read(await toEventQuery(context, workspace, options));
  if (out.isJson) return out.json({ events: found });
  if (found.length > 0) return printEventTable(out, found);
  if ((await ledger.read({ limit: 1 })).length === 0) {
    out.line(`No events yet in ${workspace.storePath}.`);
    return out.line("Every call writes events: `qm list` shows the actions you can call.");
  }
  const { eventShapes } = await import("../../core/event-shapes.ts");
  out.line("No event matches.");
  out.line(`Leave out an option, or use one of these types: ${Object.keys(eventShapes).join(", ")}.`);
}

/** Polls: other processes write to the same store, and nothing announces it. */
async function followEvents({ io, out, globals }: Context, workspace: Workspace, options: EventsOptions) {
  const { ledger } = workspace.quartermaster;
  const query = await toEventQuery({ globals }, workspace, options);
  let found = await ledger.read(query);
  print(found, printEventTable);
  let after = found.at(-1)?.id ?? 0;
  while (!io.signal.aborted) {
    await pause(POLL_MS, io.signal);
    found = await ledger.read({ ...query, after, limit: 1000 });
    print(found, printLaterEvents);
    after = found.at(-1)?.id ?? after;
  }

  function print(events: readonly StoredEvent[], printTable: typeof printEventTable): void {
    if (out.isJson) for (const event of events) out.json(event);
    else printTable(out, events);
  }
}

async function toEventQuery({ globals }: Pick<Context, "globals">, workspace: Workspace, options: EventsOptions) {
  const { type, action, limit, call } = options;
  const callId = call === undefined ? undefined : await findCallId(call, workspace);
  return { limit, ...toOwnerFilter(globals), ...omitUndefined({ type, action, callId }) };
}

/** The id of the recent call with this prefix, or the text itself if there is none. Throws if there are several. */
async function findCallId(text: string, { quartermaster }: Workspace): Promise<string> {
  if (text.length < 8 || text.length >= 36) return text;
  const recent = await quartermaster.ledger.read({ type: "call.", limit: 10_000 });
  const found = [...new Set(recent.flatMap(({ callId }) => (callId?.startsWith(text) ? [callId] : [])))];
  if (found.length < 2) return found[0] ?? text;
  const details = { suggestions: found.slice(-5) };
  const hint = "Give more of the id.";
  throw new QmError("invalid_arguments", `${found.length} call ids start with ${quoteName(text)}`, { details, hint });
}

type VerifyFlags = { readonly against?: string; readonly save?: string; readonly archive?: readonly string[] };

async function runVerify(context: Context, workspace: Workspace, flags: VerifyFlags): Promise<void> {
  const { against, save, archive } = flags;
  const { io, out, globals } = context;
  const { session } = globals;
  const { storePath, quartermaster } = workspace;
  const { ledger } = quartermaster;
  const saved = against === undefined ? [] : await readHeads(resolve(io.cwd, against));
  const archived = archive && readArchives(archive.map((file) => resolve(io.cwd, file)));
  const report = await ledger.verify({ ...omitUndefined({ session, archived }), against: saved });
  const { sessions, events, broken } = report;
  const isIntact = broken.length === 0;
  // A misspelt session must not pass for an intact one.
  if (isIntact && events === 0 && session !== undefined)
    throw new QmError("not_found", `nothing to check: session ${quoteName(session)} has no event in ${storePath}`, {
      hint: "Run `qm events` to see the sessions.",
    });
  if (!isIntact) context.end(exitCodes.failed);

  const heads = isIntact && save !== undefined ? await ledger.heads() : [];
  const toSave = heads.filter((head) => session === undefined || head.session === session);
  if (isIntact && save !== undefined)
    await writeFile(resolve(io.cwd, save), `${JSON.stringify(toSave, undefined, 2)}\n`).catch((thrown) => {
      throw createFileWriteError(save, thrown);
    });
  if (out.isJson) return out.json({ ok: isIntact, ...report });
  const fromArchive = archive && ` and ${formatCount(report.archived ?? 0, "archived event")}`;
  const amount = `${formatCount(events, "event")}${fromArchive ?? ""} in ${formatCount(sessions, "session")}`;
  if (!isIntact) {
    out.line(`${out.bad("broken")}: ${amount}, in ${storePath}`);
    out.line();
    out.table(
      ["session", "event", "problem", "details"],
      broken.map((each) => [each.session, String(each.seq), { text: each.problem, paint: out.bad }, each.message]),
    );
  } else if (events === 0) out.line(`No events yet in ${storePath}.`);
  else out.line(`${out.good("intact")}: ${amount}, unchanged since they were written.`);
  if (save === undefined) return;
  if (!isIntact) return out.line(`Nothing was saved to ${save}.`);
  out.line(
    `Saved the heads of ${formatCount(toSave.length, "chain")} to ${save}. Store the file where nobody who can write the store can change it.`,
  );
}

async function readHeads(path: string): Promise<readonly ChainHead[]> {
  try {
    const heads: unknown = JSON.parse(await readFile(path, "utf8"));
    if (Array.isArray(heads) && heads.every(isHead)) return heads;
  } catch (thrown) {
    throw createFileReadError(path, thrown);
  }
  throw createUsageError(`${path} does not hold chain heads`, "`qm events verify --save <file>` writes such a file.");
}

function isHead(head: unknown): head is ChainHead {
  if (!isRecord(head)) return false;
  return typeof head.session === "string" && typeof head.hash === "string" && Number.isSafeInteger(head.seq);
}
