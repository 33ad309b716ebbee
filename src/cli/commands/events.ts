import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Command } from "commander";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { ChainHead, EventQuery, StoredEvent } from "../../ledger/event-store.ts";
import type { ChainReport } from "../../ledger/hash-chain.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type CommandContext, withWorkspace } from "../context.ts";
import { printEventTable, printLaterEvents } from "../event-table.ts";
import { exitCodes } from "../exit-codes.ts";
import { createWholeNumberParser, formatExamples } from "../option-parsers.ts";
import { escapeUnsafe, formatCount } from "../terminal-text.ts";

interface VerifyFlags {
  readonly against?: string;
  readonly save?: string;
}

function addEventsVerifyCommand(events: Command, context: CommandContext): void {
  events
    .command("verify")
    .summary("check that no line was changed, moved or removed")
    .description(
      "Check every session's hash chain. Whoever can rewrite the whole store can rewrite the chains too: save their ends elsewhere with --save, and check against them later with --against.",
    )
    .option("--against <file>", "the chains must also pass through these ends")
    .option("--save <file>", "write the ends of the chains to this file, when all is well")
    .addHelpText("after", formatExamples("qm events verify", "qm events verify --against heads.json --save heads.json"))
    .action((flags: VerifyFlags) =>
      withWorkspace(context, "ledger", (workspace) => runVerify(context, workspace, flags)),
    );
}

async function runVerify(context: CommandContext, workspace: Workspace, { against, save }: VerifyFlags): Promise<void> {
  const { io, out, globals } = context;
  const only = globals.session === undefined ? {} : { session: globals.session };
  const expected = against === undefined ? [] : await readSavedHeads(resolve(io.cwd, against));
  const report = await workspace.quartermaster.ledger.verify({ ...only, against: expected });
  const isWhole = report.broken.length === 0;
  if (isWhole && report.events === 0 && globals.session !== undefined)
    throw createNoEventsError(globals.session, workspace);
  if (!isWhole) context.end(exitCodes.failed);

  const saved = isWhole && save !== undefined ? await readHeads(workspace, globals.session) : undefined;
  if (saved !== undefined && save !== undefined) await writeHeads(resolve(io.cwd, save), saved);
  if (out.isJson) return out.json({ ok: isWhole, ...report });
  printReport(context, report, workspace.storePath);
  if (saved !== undefined)
    out.line(
      `The ends of ${formatCount(saved.length, "chain")} are in ${save}. Keep it where the store's writers cannot reach it.`,
    );
  else if (save !== undefined) out.line(`Nothing was saved to ${save}.`);
}

/** Who names a session expects it to be there: a misspelt one must not pass for a whole one. */
function createNoEventsError(session: string, { storePath }: Workspace): QmError {
  return new QmError(
    "not_found",
    `There is nothing to check: the session ${quoteName(session)} has no event in ${storePath}.`,
    { hint: "`qm events` shows the sessions there are." },
  );
}

function printReport({ out }: CommandContext, { sessions, events, broken }: ChainReport, storePath: string): void {
  const amount = `${formatCount(events, "event")} in ${formatCount(sessions, "session")}`;
  if (broken.length === 0) {
    const whole = `${out.good("whole")}: ${amount}, every line is the one that was written.`;
    out.line(events === 0 ? `No event yet in ${storePath}.` : whole);
    return;
  }
  out.line(`${out.bad("broken")}: ${amount}, in ${storePath}`);
  out.line();
  out.table(
    ["session", "line", "problem", "what"],
    broken.map(({ session, seq, problem, message }) => [
      session,
      String(seq),
      { text: problem, paint: out.bad },
      message,
    ]),
  );
}

async function readSavedHeads(path: string): Promise<readonly ChainHead[]> {
  try {
    const heads: unknown = JSON.parse(await readFile(path, "utf8"));
    if (Array.isArray(heads) && heads.every(isHead)) return heads;
  } catch (thrown) {
    throw new QmError("invalid_arguments", `${path} cannot be read: ${getErrorMessage(thrown)}`);
  }
  throw new QmError("invalid_arguments", `${path} does not hold the ends of chains`, {
    hint: "`qm events verify --save <file>` writes such a file.",
  });
}

function isHead(head: unknown): head is ChainHead {
  return (
    isRecord(head) &&
    typeof head.session === "string" &&
    typeof head.hash === "string" &&
    Number.isSafeInteger(head.seq)
  );
}

async function readHeads({ quartermaster }: Workspace, session: string | undefined): Promise<readonly ChainHead[]> {
  const heads = await quartermaster.ledger.heads();
  return session === undefined ? heads : heads.filter((head) => head.session === session);
}

async function writeHeads(path: string, heads: readonly ChainHead[]): Promise<void> {
  await writeFile(path, `${JSON.stringify(heads, undefined, 2)}\n`).catch((thrown) => {
    throw new QmError("invalid_arguments", `${escapeUnsafe(path)} cannot be written: ${getErrorMessage(thrown)}`);
  });
}

interface EventsOptions {
  readonly type?: string;
  readonly action?: string;
  readonly call?: string;
  readonly limit: number;
  readonly follow?: boolean;
}

const POLL_MS = 200;

export function addEventsCommand(program: Command, context: CommandContext): void {
  const events = program
    .command("events")
    .summary("show the ledger; `events verify` checks it")
    .description("Show what the ledger says: the newest events, in the order in which they were written.")
    .option("--type <type>", "only this type, or those that begin like `call.`")
    .option("--action <name>", "only what is about this action")
    .option("--call <id>", "only the events of one call: its id, or the first 8 characters or more of a recent one")
    .option("--limit <n>", "the newest so many", createWholeNumberParser(1), 50)
    .option("--follow", "go on showing new ones until Ctrl-C; with --json one object a line")
    .addHelpText(
      "after",
      formatExamples("qm events --limit 10", "qm events --type call. --session local --follow", "qm events verify"),
    )
    .action((options: EventsOptions) =>
      options.follow
        ? followWhenReady(context, options)
        : withWorkspace(context, "ledger", (workspace) => showEvents(context, workspace, options)),
    );
  addEventsVerifyCommand(events, context);
}

async function showEvents(context: CommandContext, workspace: Workspace, options: EventsOptions): Promise<void> {
  const found = await workspace.quartermaster.ledger.read(await toEventQuery(context, workspace, options));
  if (context.out.isJson) context.out.json({ events: found });
  else if (found.length > 0) printEvents(context, found, true);
  else await printNoMatch(context, workspace);
}

/** Waits for the first call to make the store, where there is none yet. */
async function followWhenReady(context: CommandContext, options: EventsOptions): Promise<void> {
  const { signal } = context.io;
  let found = false;
  while (!found && !signal.aborted) {
    found = await withWorkspace(context, "ledger", async (workspace) => {
      if (!existsSync(workspace.storePath)) return false;
      await followEvents(context, workspace, options);
      return true;
    });
    if (!found) await pause(POLL_MS, undefined, { signal }).catch(() => {});
  }
  context.end(exitCodes.interrupted);
}

/** Looks again and again: other processes write to the same store, and nothing announces it. */
async function followEvents(context: CommandContext, workspace: Workspace, options: EventsOptions): Promise<void> {
  const { signal } = context.io;
  const query = await toEventQuery(context, workspace, options);
  let found = await workspace.quartermaster.ledger.read(query);
  printEvents(context, found, true);
  let after = found.at(-1)?.id ?? 0;
  while (!signal.aborted) {
    await pause(POLL_MS, undefined, { signal }).catch(() => {});
    found = await workspace.quartermaster.ledger.read({ ...query, after, limit: 1000 });
    printEvents(context, found, false);
    after = found.at(-1)?.id ?? after;
  }
}

async function toEventQuery(
  { globals }: CommandContext,
  workspace: Workspace,
  options: EventsOptions,
): Promise<EventQuery> {
  const { session, actor, tenant, user } = globals;
  const { type, action, limit } = options;
  const call = options.call === undefined ? undefined : await findCallId(options.call, workspace);
  return {
    limit,
    ...(session === undefined ? {} : { session }),
    ...(actor === undefined ? {} : { actor }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user }),
    ...(type === undefined ? {} : { type }),
    ...(action === undefined ? {} : { action }),
    ...(call === undefined ? {} : { callId: call }),
  };
}

const ID_LENGTH = 36;
const SHORTEST = 8;
const RECENT = 10_000;

/** The one recent call whose id begins like that; without one, the text as it is. Throws when there are several. */
async function findCallId(text: string, { quartermaster }: Workspace): Promise<string> {
  if (text.length < SHORTEST || text.length >= ID_LENGTH) return text;
  const recent = await quartermaster.ledger.read({ type: "call.", limit: RECENT });
  const found = [...new Set(recent.flatMap(({ callId }) => (callId?.startsWith(text) ? [callId] : [])))];
  if (found.length < 2) return found[0] ?? text;
  throw new QmError("invalid_arguments", `the ids of ${found.length} calls begin like that`, {
    details: { suggestions: found.slice(-5) },
    hint: "Give more of the id.",
  });
}

function printEvents({ out }: CommandContext, events: readonly StoredEvent[], withHead: boolean): void {
  if (out.isJson) for (const event of events) out.json(event);
  else if (withHead) printEventTable(out, events);
  else printLaterEvents(out, events);
}

async function printNoMatch({ out }: CommandContext, { quartermaster, storePath }: Workspace): Promise<void> {
  const [any] = await quartermaster.ledger.read({ limit: 1 });
  if (any === undefined) {
    out.line(`No event yet in ${storePath}.`);
    out.line("Every call leaves some: `qm list` shows what can be called.");
    return;
  }
  const { eventShapes } = await import("../../core/events.ts");
  out.line("No event fits.");
  out.line(`Leave out an option, or look at the types: ${Object.keys(eventShapes).join(", ")}.`);
}
