import { hash } from "node:crypto";
import { basename, resolve } from "node:path";
import { systemRuntime } from "../../app/system-runtime.ts";
import type { ApiConfig } from "../../config/apis-schema.ts";
import { CONFIG_FILE } from "../../config/config-file.ts";
import { setConfiguredApi } from "../../config/edit-config.ts";
import { serverName } from "../../config/mcp-schema.ts";
import { listVariables, SECRET_PREFIX } from "../../config/references.ts";
import { formatCount, quoteShellWord, toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn, type JsonObject, omitUndefined } from "../../core/json.ts";
import { matchesGlob } from "../../core/name-patterns.ts";
import { quoteName } from "../../core/names.ts";
import { findDocumentProblems } from "../../providers/api/check-document.ts";
import { type Compilation, compileDocument } from "../../providers/api/compile-document.ts";
import { type ApiOperation, type CompiledApi, parseCompiledApi } from "../../providers/api/compiled-api.ts";
import { requireApiServer } from "../../providers/api/server-address.ts";
import { getCompiledPath, readCompiled, removeCompiledApis, writeCompiledApi } from "../../workspace/apis.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { identifyApprover, requireApproval } from "../approver.ts";
import type { ImportOpenApiOptions } from "../commands/apis.ts";
import { type Context, withWorkspace } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";
import { formatTable } from "../output.ts";
import { showCount } from "../terminal.ts";
import { readApiDocument } from "./read-api-document.ts";

/** `qm import openapi`: read, compile, show, ask, write the compiled file, then the configuration. */
export async function importOpenApi(context: Context, wanted: string, options: ImportOpenApiOptions): Promise<void> {
  const { io } = context;
  if (io.stderr.isTTY) io.stderr.write(`Reading ${toOneLine(wanted)} ...`);
  const read = await readApiDocument(wanted, io.cwd, io.signal).finally(() => {
    if (io.stderr.isTTY) io.stderr.write("\r\u001B[K");
  });
  const compiled = await compile(context, read, options);
  if (compiled.api.operations.length === 0)
    throw new QmError("not_found", "no operation was imported", {
      hint: compiled.skipped[0]?.why ?? "Check the patterns of --operations.",
    });
  const problems = await findDocumentProblems(compiled.document);
  await withWorkspace(context, "ledger", async (workspace) => {
    const plan = await planImport(
      workspace,
      compiled,
      { source: read.source, fileName: basename(wanted), cwd: io.cwd },
      options,
    );
    const { name, path } = plan;
    showPlan(context, compiled, plan, problems, options.dryRun === true);
    if (options.dryRun !== true) {
      const person = await identifyApprover(context, workspace);
      const question = `${plan.before ? "Replace" : "Add"} ${name}, and let it be called at ${plan.servers.join(", ")}?`;
      await requireApproval(context, person, { question, done: "imported", yes: options.yes });
      await writePlan(workspace, plan);
    }
    const report = createReport(compiled, plan, problems, options.dryRun !== true);
    if (context.out.isJson) return context.out.json(report);
    if (options.dryRun === true) return context.out.line(context.out.dim("Nothing was changed."));
    context.out.line(`${formatCount(compiled.api.operations.length, "operation")} imported into ${path}.`);
    for (const secret of plan.missingSecrets) context.out.note(`Next: qm secrets set ${quoteShellWord(secret)}`);
  });
}

async function compile(
  { io }: Context,
  { text, base, readPart }: Awaited<ReturnType<typeof readApiDocument>>,
  { operations: patterns, server }: ImportOpenApiOptions,
): Promise<Compilation> {
  const only = patterns?.flatMap((each) => each.split(",")) ?? [];
  const progress = showCount(io.stderr, "operations read");
  try {
    return await compileDocument(text, {
      base,
      readPart,
      server: server === undefined ? undefined : requireApiServer(server),
      onProgress: progress.at,
      signal: io.signal,
      ...(only.length === 0 ? {} : { isWanted: (entry) => only.some((glob) => matchesGlob(glob, entry)) }),
    });
  } finally {
    progress.end();
  }
}

interface ApiImportPlan {
  readonly name: string;
  readonly path: string;
  readonly file: string;
  /** The text of the compiled file. */
  readonly stored: string;
  readonly entry: JsonObject;
  readonly servers: readonly string[];
  readonly newServers: readonly string[];
  /** The server of the document, if the configured one is kept instead. */
  readonly otherServer?: string;
  /** The configured server, if this import replaces it. */
  readonly formerServer?: string;
  readonly before: boolean;
  readonly changes: OperationChanges;
  readonly missingSecrets: readonly string[];
  readonly unsupported: readonly string[];
}

async function planImport(
  { config, configPath, storePath, secrets }: Workspace,
  { api }: Compilation,
  { source, fileName, cwd }: { readonly source: string; readonly fileName: string; readonly cwd: string },
  options: ImportOpenApiOptions,
): Promise<ApiImportPlan> {
  const name = chooseName(options.name, api.title || fileName);
  const path = configPath ?? resolve(cwd, CONFIG_FILE);
  const before = getOwn(config.apis, name);
  if (before !== undefined && options.name === undefined && before.source !== source)
    throw new QmError("conflict", `there is an API ${name} already, from ${quoteName(before.source ?? "elsewhere")}`, {
      hint: `Give --name ${name} to replace it, or another name.`,
    });
  // A newer document must not move the credentials to another address.
  const server = options.server === undefined ? (before?.server ?? api.server) : api.server;
  if (server === undefined)
    throw createUsageError("the document names no http server", "Give its address with --server.");
  const others = [...new Set(api.operations.flatMap((operation) => operation.server ?? []))];
  const stored = `${JSON.stringify(api)}\n`;
  const digest = hash("sha256", stored, "hex");
  const storedNames = await secrets.names();
  const auth = { ...before?.auth, ...readSecretOptions(api.schemes, options.secret ?? []) };
  const missing = listMissingSchemes(api, auth);
  for (const scheme of missing.supported) {
    const reference = proposeReference(name, scheme, api.schemes);
    // A document must not choose a secret that is there for another purpose.
    if (!listVariables(reference).some((each) => storedNames.includes(each.slice(SECRET_PREFIX.length))))
      auth[scheme] = reference;
  }
  const missingSecrets = Object.values(auth)
    .flatMap(listVariables)
    .filter((each) => each.startsWith(SECRET_PREFIX))
    .map((each) => each.slice(SECRET_PREFIX.length))
    .filter((each) => !storedNames.includes(each));
  const servers = [...new Set([server, ...others])];
  return {
    name,
    path,
    file: getCompiledPath(storePath, name, digest),
    stored,
    entry: { server, other_servers: others, digest, source, auth },
    servers,
    newServers: servers.filter((each) => each !== before?.server && !before?.otherServers.includes(each)),
    ...(api.server !== undefined && api.server !== server ? { otherServer: api.server } : {}),
    ...(before !== undefined && before.server !== server ? { formerServer: before.server } : {}),
    before: before !== undefined,
    changes: compareOperations(await readFormer(storePath, name, before), api),
    missingSecrets: [...new Set(missingSecrets)],
    unsupported: missing.unsupported,
  };
}

async function writePlan({ storePath, config }: Workspace, plan: ApiImportPlan): Promise<void> {
  const { name, path, file, stored, entry } = plan;
  await setConfiguredApi(path, name, entry, {
    ...systemRuntime,
    beforeWriting: () => writeCompiledApi(file, stored, systemRuntime.newId()),
  });
  // A running program may still have the former configuration.
  const former = getOwn(config.apis, name)?.digest;
  await removeCompiledApis(storePath, name, [String(entry.digest), ...(former === undefined ? [] : [former])]);
}

function chooseName(wanted: string | undefined, derived: string): string {
  if (wanted !== undefined) {
    const issue = serverName.safeParse(wanted).error?.issues[0];
    if (issue === undefined) return wanted;
    throw createUsageError(`${quoteName(wanted)} is no name for an API: ${issue.message}`, "Give another --name.");
  }
  const plain = derived
    .toLowerCase()
    .replace(/\.(?:json|ya?ml|gz)\b/g, "")
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 40)
    .replace(/^-+|-+$/g, "");
  if (serverName.safeParse(plain).success) return plain;
  throw createUsageError("no name can be derived from the title of the document", "Give one with --name.");
}

type Schemes = Compilation["api"]["schemes"];

function readSecretOptions(schemes: Schemes, texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const [, scheme = "", names = ""] = /^([^=]+)=([A-Za-z_]\w*(?::[A-Za-z_]\w*)?)$/.exec(text) ?? [];
      if (!Object.hasOwn(schemes, scheme)) {
        const known = Object.keys(schemes).join(", ") || "none";
        const hint = `The document has these schemes: ${toOneLine(known)}.`;
        const why = scheme === "" ? "is not <scheme>=<NAME>" : "names a scheme that the document does not have";
        throw createUsageError(`--secret ${quoteName(text)} ${why}`, hint);
      }
      const references = names.split(":").map((name) => `\${secret:${name}}`);
      return [scheme, references.join(":")] as const;
    }),
  );
}

/** References to secrets that are not stored yet, so that storing them is all that is left to do. */
function proposeReference(api: string, scheme: string, schemes: Schemes): string {
  const toName = (text: string) => text.toUpperCase().replace(/[^A-Z0-9]+/g, "_");
  const prefix = `API_${toName(api)}`;
  if (schemes[scheme]?.kind === "basic") return `\${secret:${prefix}_USER}:\${secret:${prefix}_PASSWORD}`;
  return `\${secret:${prefix}_${toName(scheme)}}`;
}

/** The first usable set of schemes of each operation that has no credentials. */
function listMissingSchemes({ operations, schemes }: Compilation["api"], auth: Readonly<Record<string, string>>) {
  const supported = new Set<string>();
  const unsupported = new Set<string>();
  for (const { security } of operations) {
    if (security.length === 0 || security.some((set) => set.every((each) => Object.hasOwn(auth, each)))) continue;
    const usable = security.find((set) => set.every((each) => Object.hasOwn(schemes, each)));
    for (const scheme of usable ?? []) if (!Object.hasOwn(auth, scheme)) supported.add(scheme);
    if (usable === undefined)
      for (const scheme of security.flat()) if (!Object.hasOwn(schemes, scheme)) unsupported.add(scheme);
  }
  return { supported: [...supported], unsupported: [...unsupported] };
}

interface OperationChanges {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
  /** Operations with another method, path or address: the overrides in the configuration were made for the former one. */
  readonly moved: readonly string[];
}

async function readFormer(storePath: string, name: string, before: ApiConfig | undefined) {
  if (before === undefined) return undefined;
  try {
    return parseCompiledApi(await readCompiled(storePath, name, before.digest));
  } catch {
    // A compiled API that cannot be read is replaced.
    return undefined;
  }
}

function compareOperations(before: CompiledApi | undefined, after: CompiledApi): OperationChanges {
  const former = new Map(before?.operations.map((operation) => [operation.entry, operation]));
  const entries = new Set(after.operations.map(({ entry }) => entry));
  const pairs = after.operations.flatMap((operation) => {
    const old = former.get(operation.entry);
    return before === undefined || old === undefined ? [] : [{ entry: operation.entry, old, operation }];
  });
  return {
    added: [...entries].filter((entry) => !former.has(entry)),
    removed: [...former.keys()].filter((entry) => !entries.has(entry)),
    changed: pairs
      .filter(({ old, operation }) => describeCall(before, old) !== describeCall(after, operation))
      .map(({ entry }) => entry),
    moved: pairs
      .filter(({ old, operation }) => describeTarget(old) !== describeTarget(operation))
      .map(({ entry, old, operation }) => `${entry}: ${describeTarget(old)} is now ${describeTarget(operation)}`),
  };
}

const describeTarget = ({ method, server = "", path }: ApiOperation) => `${method} ${server}${path}`;

/** How a credential is sent can change without the operation. */
const describeCall = (api: CompiledApi | undefined, operation: ApiOperation) =>
  JSON.stringify([operation, operation.security.flat().map((scheme) => getOwn(api?.schemes ?? {}, scheme))]);

const SHOWN = 20;

/** With --json the answer is on stdout; the person who is asked reads the plan on stderr. */
function showPlan(
  { out }: Context,
  { api, trimmed, skipped, unresolved }: Compilation,
  plan: ApiImportPlan,
  problems: readonly string[] | undefined,
  isDry: boolean,
): void {
  if (out.isJson && isDry) return;
  const line = out.isJson ? out.note : out.line;
  const { name, changes, entry } = plan;
  line(out.bold(`${toOneLine(api.title || name)} ${toOneLine(api.version)}`.trim()));
  const methods = [...new Set(api.operations.map(({ method }) => method))].map(
    (method) => `${api.operations.filter((each) => each.method === method).length} ${method}`,
  );
  line(`  ${formatCount(api.operations.length, "action")} api__${name}__*: ${methods.join(", ")}`);
  if (!plan.before) {
    const rows = api.operations
      .slice(0, SHOWN)
      .map(({ entry: operation, method, path }) => [method, path, `api__${name}__${operation}`]);
    for (const text of formatTable(["", "", ""], rows, {
      indent: 4,
      ...omitUndefined({ width: out.width }),
      whole: [0, 2],
    }))
      line(text);
    if (api.operations.length > SHOWN)
      line(`    and ${api.operations.length - SHOWN} more; --dry-run --json lists all`);
  }
  line(`  Requests and credentials go only to ${plan.servers.join(", ")}.`);
  if (plan.formerServer !== undefined) line(`  Until now it is called at ${plan.formerServer}.`);
  if (plan.otherServer !== undefined)
    line(`  The document names ${plan.otherServer}. Give --server ${plan.otherServer} to use it.`);
  for (const [scheme, reference] of Object.entries(entry.auth as Record<string, string>))
    line(`  ${toOneLine(scheme)}: ${reference}`);
  if (plan.before)
    for (const kind of ["added", "removed", "changed"] as const)
      if (changes[kind].length > 0) line(`  ${kind}: ${listSome(changes[kind])}`);
  for (const each of changes.moved) line(`  ${toOneLine(each)}`);
  if (plan.before && plan.newServers.length > 0) line(`  New addresses: ${plan.newServers.join(", ")}`);
  if (plan.before && Object.values(changes).every(({ length }) => length === 0)) line("  No operation changes.");
  if (trimmed.length > 0)
    line(`  The schemas of ${formatCount(trimmed.length, "operation")} are too large and are shortened.`);
  const warn = (text: string) => out.note(`qm: warning: ${toOneLine(text)}`);
  for (const { operation, why } of skipped.slice(0, SHOWN)) warn(`${operation} is left out: ${why}`);
  if (skipped.length > SHOWN) warn(`${skipped.length - SHOWN} more are left out; --json lists them`);
  if (unresolved.length > 0) warn(`references that are not read: ${listSome(unresolved)}`);
  if (plan.unsupported.length > 0) warn(`security schemes that are not supported: ${listSome(plan.unsupported)}`);
  if (problems === undefined) warn("the document is too large to be checked against the rules of OpenAPI");
  else if (problems.length > 0)
    warn(`the document breaks the rules of OpenAPI in ${formatCount(problems.length, "place")}: ${problems[0]}`);
}

const listSome = (names: readonly string[]): string =>
  names.slice(0, SHOWN).map(toOneLine).join(", ") + (names.length > SHOWN ? ` and ${names.length - SHOWN} more` : "");

function createReport(
  { api, trimmed, skipped, unresolved }: Compilation,
  { name, path, servers, changes, before, missingSecrets, unsupported, entry, otherServer }: ApiImportPlan,
  problems: readonly string[] | undefined,
  written: boolean,
) {
  return {
    name,
    title: api.title,
    servers,
    ...omitUndefined({ document_server: otherServer }),
    operations: api.operations.map(({ entry: operation, method, path: at }) => ({
      action: `api__${name}__${operation}`,
      method,
      path: at,
    })),
    auth: entry.auth,
    missing_secrets: missingSecrets,
    unsupported_schemes: unsupported,
    ...(before ? { changes } : {}),
    trimmed,
    skipped,
    unresolved,
    ...omitUndefined({ problems }),
    config: path,
    written,
  };
}
