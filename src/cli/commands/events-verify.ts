import { readFile, writeFile } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { messageOf, QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { quoted } from "../../core/names.ts";
import type { ChainHead } from "../../ledger/event-store.ts";
import type { ChainReport } from "../../ledger/verify.ts";
import type { Workspace } from "../../workspace.ts";
import { type Context, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../options.ts";
import { counted, plain } from "../text.ts";

interface VerifyFlags {
  readonly against?: string;
  readonly save?: string;
}

export function addVerify(events: Command, context: Context): void {
  events
    .command("verify")
    .summary("check that no line was changed, moved or removed")
    .description(
      "Check every session's hash chain. Whoever can rewrite the whole store can rewrite the chains too: save their ends elsewhere with --save, and check against them later with --against.",
    )
    .option("--against <file>", "the chains must also pass through these ends")
    .option("--save <file>", "write the ends of the chains to this file, when all is well")
    .addHelpText("after", examples("qm events verify", "qm events verify --against heads.json --save heads.json"))
    .action((flags: VerifyFlags) => withWorkspace(context, "ledger", (workspace) => verify(context, workspace, flags)));
}

async function verify(context: Context, workspace: Workspace, { against, save }: VerifyFlags): Promise<void> {
  const { io, out, globals } = context;
  const only = globals.session === undefined ? {} : { session: globals.session };
  const expected = against === undefined ? [] : await savedHeads(resolve(io.cwd, against));
  const report = await workspace.quartermaster.ledger.verify({ ...only, against: expected });
  const isWhole = report.broken.length === 0;
  if (isWhole && report.events === 0 && globals.session !== undefined) throw nothingIn(globals.session, workspace);
  if (!isWhole) context.end(exitCodes.failed);

  const saved = isWhole && save !== undefined ? await headsOf(workspace, globals.session) : undefined;
  if (saved !== undefined && save !== undefined) await write(resolve(io.cwd, save), saved);
  if (out.isJson) return out.json({ ok: isWhole, ...report });
  sayReport(context, report, workspace.storePath);
  if (saved !== undefined)
    out.line(
      `The ends of ${counted(saved.length, "chain")} are in ${save}. Keep it where the store's writers cannot reach it.`,
    );
  else if (save !== undefined) out.line(`Nothing was saved to ${save}.`);
}

/** Who names a session expects it to be there: a misspelt one must not pass for a whole one. */
function nothingIn(session: string, { storePath }: Workspace): QmError {
  return new QmError(
    "not_found",
    `There is nothing to check: the session ${quoted(session)} has no event in ${storePath}.`,
    { hint: "`qm events` shows the sessions there are." },
  );
}

function sayReport({ out }: Context, { sessions, events, broken }: ChainReport, storePath: string): void {
  const amount = `${counted(events, "event")} in ${counted(sessions, "session")}`;
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

async function savedHeads(path: string): Promise<readonly ChainHead[]> {
  try {
    const heads: unknown = JSON.parse(await readFile(path, "utf8"));
    if (Array.isArray(heads) && heads.every(isHead)) return heads;
  } catch (thrown) {
    throw new QmError("invalid_arguments", `${path} cannot be read: ${messageOf(thrown)}`);
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

async function headsOf({ quartermaster }: Workspace, session: string | undefined): Promise<readonly ChainHead[]> {
  const heads = await quartermaster.ledger.heads();
  return session === undefined ? heads : heads.filter((head) => head.session === session);
}

async function write(path: string, heads: readonly ChainHead[]): Promise<void> {
  await writeFile(path, `${JSON.stringify(heads, undefined, 2)}\n`).catch((thrown) => {
    throw new QmError("invalid_arguments", `${plain(path)} cannot be written: ${messageOf(thrown)}`);
  });
}
