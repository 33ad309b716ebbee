import { existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import type { Command } from "commander";
import { QmError } from "../../core/errors.ts";
import type { EventQuery, StoredEvent } from "../../ledger/event-store.ts";
import type { Workspace } from "../../workspace.ts";
import { type Context, withWorkspace } from "../context.ts";
import { eventTable, laterEvents } from "../event-text.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples, wholeNumber } from "../options.ts";
import { addVerify } from "./events-verify.ts";

interface EventsOptions {
  readonly type?: string;
  readonly action?: string;
  readonly call?: string;
  readonly limit: number;
  readonly follow?: boolean;
}

const POLL_MS = 200;

export function addEvents(program: Command, context: Context): void {
  const events = program
    .command("events")
    .summary("show the ledger; `events verify` checks it")
    .description("Show what the ledger says: the newest events, in the order in which they were written.")
    .option("--type <type>", "only this type, or those that begin like `call.`")
    .option("--action <name>", "only what is about this action")
    .option("--call <id>", "only the events of one call: its id, or the first 8 characters or more of a recent one")
    .option("--limit <n>", "the newest so many", wholeNumber(1), 50)
    .option("--follow", "go on showing new ones until Ctrl-C; with --json one object a line")
    .addHelpText(
      "after",
      examples("qm events --limit 10", "qm events --type call. --session local --follow", "qm events verify"),
    )
    .action((options: EventsOptions) =>
      options.follow
        ? followed(context, options)
        : withWorkspace(context, "ledger", (workspace) => show(context, workspace, options)),
    );
  addVerify(events, context);
}

async function show(context: Context, workspace: Workspace, options: EventsOptions): Promise<void> {
  const found = await workspace.quartermaster.ledger.read(await queryOf(context, workspace, options));
  if (context.out.isJson) context.out.json({ events: found });
  else if (found.length > 0) print(context, found, true);
  else await sayNothingFits(context, workspace);
}

/** Waits for the first call to make the store, where there is none yet. */
async function followed(context: Context, options: EventsOptions): Promise<void> {
  const { signal } = context.io;
  let found = false;
  while (!found && !signal.aborted) {
    found = await withWorkspace(context, "ledger", async (workspace) => {
      if (!existsSync(workspace.storePath)) return false;
      await follow(context, workspace, options);
      return true;
    });
    if (!found) await pause(POLL_MS, undefined, { signal }).catch(() => {});
  }
  context.end(exitCodes.interrupted);
}

/** Looks again and again: other processes write to the same store, and nothing announces it. */
async function follow(context: Context, workspace: Workspace, options: EventsOptions): Promise<void> {
  const { signal } = context.io;
  const query = await queryOf(context, workspace, options);
  let found = await workspace.quartermaster.ledger.read(query);
  print(context, found, true);
  let after = found.at(-1)?.id ?? 0;
  while (!signal.aborted) {
    await pause(POLL_MS, undefined, { signal }).catch(() => {});
    found = await workspace.quartermaster.ledger.read({ ...query, after, limit: 1000 });
    print(context, found, false);
    after = found.at(-1)?.id ?? after;
  }
}

async function queryOf({ globals }: Context, workspace: Workspace, options: EventsOptions): Promise<EventQuery> {
  const { session, actor, tenant, user } = globals;
  const { type, action, limit } = options;
  const call = options.call === undefined ? undefined : await callIdOf(options.call, workspace);
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
async function callIdOf(text: string, { quartermaster }: Workspace): Promise<string> {
  if (text.length < SHORTEST || text.length >= ID_LENGTH) return text;
  const recent = await quartermaster.ledger.read({ type: "call.", limit: RECENT });
  const found = [...new Set(recent.flatMap(({ callId }) => (callId?.startsWith(text) ? [callId] : [])))];
  if (found.length < 2) return found[0] ?? text;
  throw new QmError("invalid_arguments", `the ids of ${found.length} calls begin like that`, {
    details: { suggestions: found.slice(-5) },
    hint: "Give more of the id.",
  });
}

function print({ out }: Context, events: readonly StoredEvent[], withHead: boolean): void {
  if (out.isJson) for (const event of events) out.json(event);
  else if (withHead) eventTable(out, events);
  else laterEvents(out, events);
}

async function sayNothingFits({ out }: Context, { quartermaster, storePath }: Workspace): Promise<void> {
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
