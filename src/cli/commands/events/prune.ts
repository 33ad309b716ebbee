import { dirname, relative, resolve, sep } from "node:path";
import { formatCount } from "../../../core/display-text.ts";
import { omitUndefined } from "../../../core/json.ts";
import { quoteName } from "../../../core/names.ts";
import { parseDuration } from "../../../core/runtime.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { requireYes } from "../../approver.ts";
import type { Context } from "../../context.ts";
import { createUsageError } from "../../exit-codes.ts";

type PruneFlags = { readonly before: string; readonly archive?: string; readonly yes?: boolean };

/** Removes old events after asking. Ctrl-C stops between two steps. */
export async function runPrune(context: Context, workspace: Workspace, flags: PruneFlags): Promise<void> {
  const { quartermaster } = workspace;
  const { io, out } = context;
  const before = parseBefore(flags.before, new Date());
  const archive = flags.archive && resolve(io.cwd, flags.archive);
  const how = archive === undefined ? "without an archive" : `after writing them to ${flags.archive}`;
  if (archive !== undefined && isReadByActions(workspace, archive, io.cwd))
    out.note(`qm: warning: ${flags.archive} is in the folder of the file actions, so models can read it.`);
  const question = `Remove the events before ${before.toISOString()}, ${how}?`;
  await requireYes(context, { question, done: "removed", yes: flags.yes });
  const report = await quartermaster.ledger.prune({ before, signal: io.signal, ...omitUndefined({ archive }) });
  if (out.isJson) return out.json({ ...report, before: before.toISOString(), ...omitUndefined({ archive }) });
  const { events, sessions } = report;
  if (events === 0) return out.line(`No event is older than ${before.toISOString()}, or all of them are still needed.`);
  out.line(`Removed ${formatCount(events, "event")} of ${formatCount(sessions, "session")}.`);
  if (archive !== undefined) out.line(`They are in ${flags.archive}: \`qm events verify --archive\` checks them.`);
}

function isReadByActions({ config, configPath, fill }: Workspace, path: string, cwd: string): boolean {
  const { enabled, root } = config.providers.file;
  const folder = configPath === undefined ? cwd : dirname(configPath);
  const inside = relative(resolve(folder, fill(root, "providers.file.root")), path);
  return enabled && inside !== ".." && !inside.startsWith(`..${sep}`);
}

/** A date, a time, or a duration before now. */
function parseBefore(text: string, now: Date): Date {
  const duration = parseDuration(text);
  const at = duration === undefined ? new Date(text) : new Date(now.getTime() - duration);
  const isTime = duration !== undefined || /^\d{4}-\d\d-\d\d/.test(text);
  if (isTime && at.getTime() <= now.getTime()) return at;
  const hint = "Give a date (2026-01-31), a time (2026-01-31T12:00:00Z), or an age (90d).";
  throw createUsageError(`${quoteName(text)} is not a time in the past`, hint);
}
