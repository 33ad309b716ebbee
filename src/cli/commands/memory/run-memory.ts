import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { escapeUnsafe, formatCount, toOneLine } from "../../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../../core/errors.ts";
import { omitUndefined } from "../../../core/json.ts";
import { toOutcomeError } from "../../../core/outcome.ts";
import { formatMemoryEntry } from "../../../providers/memory/memory-entry.ts";
import {
  formatMemoryFile,
  formatMemoryIndex,
  MEMORY_FILE_LIMIT,
  MEMORY_INDEX,
  type ParsedMemoryFile,
  parseMemoryFile,
} from "../../../providers/memory/memory-file.ts";
import type { MemoryLayer, MemoryText } from "../../../providers/memory/memory-text.ts";
import type { Workspace } from "../../../workspace/workspace.ts";
import { type Context, toCallerOptions } from "../../context.ts";
import { exitCodes } from "../../exit-codes.ts";

type LayerFlag = { readonly layer?: MemoryLayer };
type MemoryRow = Omit<MemoryText, "body"> & {
  readonly layer: MemoryLayer;
  readonly version: number;
  readonly changed_at: string;
  readonly changed_by: string;
};
type MemoryPage = { readonly memories: readonly MemoryRow[]; readonly total: number; readonly next_offset?: number };

/** Calls an operation as the caller of the global options. Throws its error. */
async function callMemory<T>(
  { globals, io }: Context,
  { quartermaster, config }: Workspace,
  entry: string,
  args: object,
) {
  if (!config.providers.memory.enabled) {
    const hint = "Set providers.memory.enabled: true in quartermaster.yaml.";
    throw new QmError("invalid_config", "memory is not enabled", { hint });
  }
  const caller = toCallerOptions(globals);
  const options = { caller, via: "cli", keep: false, signal: io.signal };
  const outcome = await quartermaster.invoke(`memory_operation__${entry}`, args, options);
  if (outcome.status === "done") return outcome.data as T;
  if (outcome.status === "waiting")
    throw new QmError("conflict", `the call waits for approval ${outcome.approval.id}`, {
      hint: `Run \`qm approvals approve ${outcome.approval.id}\`.`,
    });
  const { code, error, problems } = outcome.error;
  // The example and the schema of the action do not help a person who called a command.
  if (code === "invalid_arguments" && problems !== undefined)
    throw new QmError(code, error, { hint: "`qm memory list` shows the slugs and layers." });
  throw toOutcomeError(outcome);
}

type ListFlags = LayerFlag & Readonly<{ type?: string; query?: string; offset?: number; limit?: number }>;

export async function listMemories(context: Context, workspace: Workspace, flags: ListFlags): Promise<void> {
  const { out } = context;
  const page = await callMemory<MemoryPage>(context, workspace, "list", flags);
  const isSearched = flags.layer !== undefined || flags.type !== undefined || flags.query !== undefined;
  const none = page.total > 0 ? `There are only ${page.total}; start again at --offset 0.` : "No memory matches.";
  if (out.isJson || page.memories.length === 0)
    return out.answer(page, isSearched || page.total > 0 ? none : "No memories.");
  const rows = page.memories.map(({ layer, slug, type, changed_at, changed_by, description }) => {
    return [layer, slug, type, changed_at.slice(0, 10), changed_by, description];
  });
  out.table(["layer", "slug", "type", "changed", "by", "description"], rows);
  if (page.next_offset !== undefined) out.note(`${page.total} in all; --offset ${page.next_offset} shows the next`);
}

export async function showMemory(
  context: Context,
  workspace: Workspace,
  slug: string,
  { layer }: LayerFlag,
): Promise<void> {
  const entry = await readWhole(context, workspace, { layer: layer ?? "shared", slug });
  context.out.answer(entry, escapeUnsafe(entry.body));
}

/** The whole entry, however many lines it has. */
async function readWhole(context: Context, workspace: Workspace, { layer, slug }: Pick<MemoryRow, "layer" | "slug">) {
  type Page = MemoryRow & { readonly body: string; readonly next_offset?: number };
  const read = (offset: number) => callMemory<Page>(context, workspace, "read", { layer, slug, offset, limit: 10_000 });
  const { next_offset, ...first } = await read(0);
  const bodies = [first.body];
  for (let next = next_offset; next !== undefined; ) {
    const page = await read(next);
    bodies.push(page.body);
    next = page.next_offset;
  }
  return { ...first, body: bodies.join("\n") };
}

export async function showHistory(
  context: Context,
  workspace: Workspace,
  slug: string,
  flags: LayerFlag & { limit?: number },
) {
  type Version = MemoryRow & { readonly body: string; readonly ended?: { at: string; by: string; how: string } };
  const found = await callMemory<{ versions: readonly Version[]; total: number }>(context, workspace, "history", {
    ...flags,
    slug,
  });
  const text = found.versions.map(({ version, changed_at, changed_by, ended, body }) => {
    const end = ended === undefined ? "current" : `${ended.how} ${ended.at} by ${ended.by}`;
    return `${toOneLine(`version ${version}: ${changed_at} by ${changed_by}, ${end}`)}\n${escapeUnsafe(body)}\n`;
  });
  context.out.answer(found, text.join("\n"));
}

export async function forgetMemory(
  context: Context,
  workspace: Workspace,
  slug: string,
  { layer }: LayerFlag,
): Promise<void> {
  const forgotten = await callMemory<object>(context, workspace, "forget", { layer, slug });
  context.out.answer(forgotten, `Forgot the ${layer} memory ${slug}.`);
}

export async function exportMemories(context: Context, workspace: Workspace, folder: string, { layer }: LayerFlag) {
  const path = resolve(context.io.cwd, folder);
  const rows: MemoryRow[] = [];
  for (let offset: number | undefined = 0; offset !== undefined; ) {
    const args = { ...omitUndefined({ layer }), offset, limit: 200 };
    const page: MemoryPage = await callMemory<MemoryPage>(context, workspace, "list", args);
    rows.push(...page.memories);
    offset = page.next_offset;
  }
  rows.sort((a, b) => (a.layer + a.slug < b.layer + b.slug ? -1 : 1));
  await mkdir(path, { recursive: true });
  for (const row of rows) {
    const entry = await readWhole(context, workspace, row);
    await writeFile(join(path, `${formatMemoryEntry(row.layer, row.slug)}.md`), formatMemoryFile(row.layer, entry));
  }
  await writeFile(join(path, MEMORY_INDEX), formatMemoryIndex(rows));
  const text = `Exported ${formatCount(rows.length, "file")} to ${toOneLine(folder)}.`;
  context.out.answer({ folder: path, exported: rows.length }, text);
}

async function readMemoryFile(path: string, name: string): Promise<ParsedMemoryFile> {
  const fail = (message: string): ParsedMemoryFile => ({ problem: { line: 1, message } });
  try {
    const stats = await stat(path);
    // Reading a pipe would never end.
    if (!stats.isFile() || stats.size > MEMORY_FILE_LIMIT)
      return fail(`not a file of at most ${MEMORY_FILE_LIMIT} bytes`);
    return parseMemoryFile(await readFile(path, "utf8"), name);
  } catch (thrown) {
    return fail(getErrorMessage(thrown));
  }
}

export async function importMemories(context: Context, workspace: Workspace, folder: string, { layer }: LayerFlag) {
  const { io, out } = context;
  const path = resolve(io.cwd, folder);
  const names = await readdir(path).catch((thrown: unknown) => {
    const { code } = thrown as NodeJS.ErrnoException;
    const reasons = new Map([
      ["ENOENT", "does not exist"],
      ["ENOTDIR", "is not a folder"],
    ]);
    const why = reasons.get(code ?? "") ?? `cannot be read: ${getErrorMessage(thrown)}`;
    const hint = "Give a folder with .md files.";
    throw new QmError("invalid_arguments", `${toOneLine(folder)} ${why}`, { hint });
  });
  const counts = { created: 0, replaced: 0, unchanged: 0 };
  const problems: { file: string; line: number; message: string }[] = [];
  for (const file of names.filter((name) => /\.md$/i.test(name) && name !== MEMORY_INDEX).sort()) {
    const parsed = await readMemoryFile(join(path, file), file);
    if ("problem" in parsed) {
      problems.push({ file, ...parsed.problem });
      continue;
    }
    const { layer: own = "shared", ...args } = parsed.file;
    try {
      const { change } = await callMemory<{ change: keyof typeof counts }>(
        context,
        workspace,
        `remember_${layer ?? own}`,
        args,
      );
      counts[change]++;
    } catch (thrown) {
      if (!(thrown instanceof QmError) || thrown.code !== "invalid_arguments") throw thrown;
      problems.push({ file, line: 1, message: thrown.message });
    }
  }
  const shown = problems.map(({ file, line, message }) => toOneLine(`${file}:${line}: ${message}`));
  const summary = `${counts.created} created, ${counts.replaced} replaced, ${counts.unchanged} unchanged, ${problems.length} refused`;
  out.answer({ ...counts, refused: problems }, [...shown, summary].join("\n"));
  if (problems.length > 0) context.end(exitCodes.failed);
}
