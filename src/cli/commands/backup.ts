import { existsSync } from "node:fs";
import { open } from "node:fs/promises";
import { resolve } from "node:path";
import type { Command } from "commander";
import { formatCount } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import type { BackupOptions } from "../../workspace/backup.ts";
import { requireYes } from "../approver.ts";
import { type Context, findStorePath } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { examples } from "../option-parsers.ts";
import { createFileWriteError } from "../output-file.ts";
import { showCount } from "../terminal.ts";

export function addBackupCommand(program: Command, context: Context): void {
  program
    .command("backup")
    .argument("<file>", "the file to write")
    .summary("copy the store to a file")
    .description(
      "Copy the store to a file: ledger, approvals, notes and everything else in it. Other processes can go on. The copy is checked. Secrets, tokens and the configuration file are not in it.",
    )
    .option("--force", "replace an existing file")
    .addHelpText(...examples("qm backup ../backups/today.db", "qm backup ../backups/today.db --force --json"))
    .action((file: string, options: { readonly force?: boolean }) => runBackup(context, file, options));
}

export function addRestoreCommand(program: Command, context: Context): void {
  program
    .command("restore")
    .argument("<file>", "a file that `qm backup` has written")
    .summary("replace the store by a backup")
    .description(
      "Replace the store by a backup, after checking it. The present store stays beside it, with the time in its name. Refused while another process uses the store. Calls that wait for approval or have not run yet expire, because they may have run after the backup.",
    )
    .option("--yes", "do not ask")
    .addHelpText(...examples("qm restore ../backups/today.db", "qm restore today.db --yes --json"))
    .action((file: string, options: { readonly yes?: boolean }) => runRestore(context, file, options));
}

async function runBackup(context: Context, name: string, { force = false }: { readonly force?: boolean }) {
  const { out, io } = context;
  const file = resolve(io.cwd, name);
  if (!force && existsSync(file)) throw createFileWriteError(name, Object.assign(new Error(), { code: "EEXIST" }));
  const { backUpStore } = await import("../../workspace/backup.ts");
  const storePath = await findStorePath(context);
  const copied = await withProgress(context, (onProgress) => backUpStore({ storePath, file, force, onProgress })).catch(
    (thrown: unknown) => {
      throw thrown instanceof QmError ? thrown : createFileWriteError(name, thrown);
    },
  );
  const { broken } = copied;
  if (broken.length > 0) context.end(exitCodes.failed);
  if (out.isJson) return out.json({ ok: broken.length === 0, file, ...copied });
  out.line(`Copied the store to ${name}: ${formatSize(copied)}.`);
  if (broken.length > 0) out.line(out.bad("The ledger is broken, in the store too. `qm events verify` shows where."));
  out.line("Secrets, tokens and quartermaster.yaml are not in it: copy them yourself if you need them.");
}

async function runRestore(context: Context, name: string, { yes }: { readonly yes?: boolean }): Promise<void> {
  const { out, io } = context;
  const file = resolve(io.cwd, name);
  await requireBackup(file, name);
  const storePath = await findStorePath(context);
  const question = `Replace the store ${storePath} by ${name}?`;
  await requireYes(context, { question, done: "restored", yes });
  const { restoreStore } = await import("../../workspace/backup.ts");
  const restored = await withProgress(context, (onProgress) => restoreStore({ storePath, file, onProgress }));
  if (out.isJson) return out.json({ ok: true, file, store: storePath, ...restored });
  const { expired, kept } = restored;
  out.line(`Restored ${storePath} from ${name}: ${formatSize(restored)}.`);
  if (expired > 0) out.line(`${formatCount(expired, "open approval")} expired. Ask again for calls that have not run.`);
  if (kept !== undefined) out.line(`The former store is ${kept}. Remove it when you no longer need it.`);
}

const SQLITE_HEADER = "SQLite format 3\0";

/** Checked before the question, so that no person agrees to a restore that cannot be done. */
async function requireBackup(file: string, name: string): Promise<void> {
  const hint = "Give a file that `qm backup` has written.";
  if (!existsSync(file)) throw new QmError("not_found", `there is no backup ${name}`, { hint });
  const start = Buffer.alloc(SQLITE_HEADER.length);
  const isRead = await readStart(file, start).catch(() => false);
  if (!isRead || start.toString("latin1") !== SQLITE_HEADER)
    throw new QmError("store_failed", `${name} is not a backup: it is not a SQLite database`, { hint });
}

async function readStart(file: string, into: Buffer): Promise<boolean> {
  const opened = await open(file, "r");
  const { bytesRead } = await opened.read(into).finally(() => opened.close());
  return bytesRead === into.length;
}

const formatSize = ({ events, sessions, bytes }: { events: number; sessions: number; bytes: number }): string =>
  `${formatCount(events, "event")} in ${formatCount(sessions, "session")}, ${Math.ceil(bytes / 1024)} KiB`;

const SHOW_AFTER_MS = 1_000;

async function withProgress<T>({ io }: Context, work: (report: BackupOptions["onProgress"]) => Promise<T>): Promise<T> {
  const count = showCount(io.stderr, "pages copied");
  const started = performance.now();
  return work((progress) => {
    if (performance.now() - started > SHOW_AFTER_MS) count.at(progress);
  }).finally(count.end);
}
