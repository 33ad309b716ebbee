import { hash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { basename, resolve } from "node:path";
import { promisify } from "node:util";
import { gunzip } from "node:zlib";
import { systemRuntime } from "../../app/system-runtime.ts";
import { CONFIG_FILE } from "../../config/config-file.ts";
import { setConfiguredApi } from "../../config/edit-servers.ts";
import { serverName } from "../../config/mcp-schema.ts";
import { formatCount, toOneLine } from "../../core/display-text.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { type JsonObject, omitUndefined } from "../../core/json.ts";
import { matchesGlob } from "../../core/name-patterns.ts";
import { quoteName } from "../../core/names.ts";
import { type Compilation, compileDocument } from "../../providers/api/compile-document.ts";
import { DOCUMENT_BYTES } from "../../providers/api/read-document.ts";
import { sendWithFetch } from "../../providers/api/send-request.ts";
import { requireApiServer } from "../../providers/api/server-address.ts";
import { getCompiledPath, writeCompiledApi } from "../../workspace/apis.ts";
import type { ImportOpenApiOptions } from "../commands/apis.ts";
import { type Context, withWorkspace } from "../context.ts";
import { createUsageError } from "../exit-codes.ts";

/** `qm import openapi`: read, compile, write the compiled file, then the configuration. */
export async function importOpenApi(context: Context, source: string, options: ImportOpenApiOptions): Promise<void> {
  const { io, out } = context;
  const { text, base } = await readSource(source, io.cwd, io.signal);
  const only = options.only?.flatMap((each) => each.split(",")) ?? [];
  const compiled = await compileDocument(text, {
    base,
    server: options.server === undefined ? undefined : requireApiServer(options.server),
    ...(only.length === 0 ? {} : { isWanted: (entry) => only.some((glob) => matchesGlob(glob, entry)) }),
  });
  const { api, trimmed, skipped } = compiled;
  if (api.operations.length === 0)
    throw new QmError("not_found", "no operation was imported", { hint: "Check --only, and run with --dry-run." });
  if (api.server === undefined)
    throw createUsageError("the document names no http server", "Give its address with --server.");
  const name = chooseName(options.name ?? (api.title || basename(source)));
  const entry = createEntry(compiled, toOneLine(source), options.secret ?? []);
  const stored = `${JSON.stringify(api)}\n`;
  const digest = hash("sha256", stored, "hex");
  const missing = listMissingSchemes(compiled, entry.auth);
  await withWorkspace(context, "ledger", async (workspace) => {
    const path = workspace.configPath ?? resolve(io.cwd, CONFIG_FILE);
    const file = getCompiledPath(workspace.storePath, name);
    const before = Object.hasOwn(workspace.config.apis, name) ? workspace.config.apis[name] : undefined;
    // An import of a newer document keeps the credentials that were configured by hand.
    const auth = { ...before?.auth, ...entry.auth };
    const complete = { ...entry, digest, ...(Object.keys(auth).length > 0 ? { auth } : {}) };
    if (options.dryRun !== true) {
      await writeCompiledApi(file, stored, systemRuntime.newId());
      await setConfiguredApi(path, name, complete as JsonObject, systemRuntime);
    }
    const lacking = missing.filter((scheme) => !Object.hasOwn(auth, scheme));
    const report = {
      name,
      title: api.title,
      server: api.server ?? "",
      operations: api.operations.map(({ entry: operation, method, path: at }) => ({
        action: `api__${name}__${operation}`,
        method,
        path: at,
      })),
      trimmed,
      skipped,
      missing_credentials: lacking,
      config: path,
      written: options.dryRun !== true,
    };
    if (out.isJson) return out.json(report);
    const amount = formatCount(api.operations.length, "operation");
    out.line(
      `${options.dryRun ? "Would import" : "Imported"} ${amount} of ${toOneLine(api.title || name)} as api__${name}__*.`,
    );
    out.line(`Requests go only to ${[api.server, ...(entry.other_servers ?? [])].join(", ")}.`);
    if (trimmed.length > 0)
      out.line(`The schemas of ${formatCount(trimmed.length, "operation")} were too large and are shortened.`);
    for (const { operation, why } of skipped.slice(0, 20))
      out.note(`qm: warning: ${toOneLine(operation)} is left out: ${toOneLine(why)}`);
    if (skipped.length > 20) out.note(`qm: warning: ${skipped.length - 20} more are left out; --json lists them`);
    for (const scheme of lacking)
      out.note(
        `No credential for ${toOneLine(scheme)}: store one with \`qm secrets set NAME\`, then import with --secret ${toOneLine(scheme)}=NAME.`,
      );
  });
}

async function readSource(source: string, cwd: string, signal: AbortSignal): Promise<{ text: string; base?: string }> {
  if (/^https?:\/\//i.test(source)) {
    const limits = { maxBytes: DOCUMENT_BYTES, maxRedirects: 0, timeoutMs: 60_000, signal };
    const response = await sendWithFetch({ url: source, method: "GET", headers: { accept: "*/*" }, ...limits });
    if (response.status !== 200 || response.truncated)
      throw new QmError("action_failed", `the document cannot be read: the server answered ${response.status}`, {
        hint: "Give the address of the document itself. Redirects are not followed.",
      });
    return { text: await unpack(response.body), base: source };
  }
  const path = resolve(cwd, source);
  try {
    if ((await stat(path)).size > DOCUMENT_BYTES) throw new Error("it is too large");
    return { text: await unpack(await readFile(path)) };
  } catch (thrown) {
    throw new QmError("not_found", `${path} cannot be read: ${getErrorMessage(thrown)}`, { hint: "Check the path." });
  }
}

async function unpack(bytes: Uint8Array): Promise<string> {
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const plain = isPacked ? await promisify(gunzip)(bytes, { maxOutputLength: DOCUMENT_BYTES }) : Buffer.from(bytes);
  return plain.toString("utf8").replace(/^\uFEFF/, "");
}

function chooseName(wanted: string): string {
  const plain = wanted
    .toLowerCase()
    .replace(/\.(?:json|ya?ml|gz)\b/g, "")
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 40)
    .replace(/^-+|-+$/g, "");
  if (serverName.safeParse(wanted).success) return wanted;
  if (plain === "") throw createUsageError(`${quoteName(wanted)} is no name for an API`, "Give one with --name.");
  return plain;
}

/** The entry in the configuration, without the digest. */
function createEntry({ api }: Compilation, source: string, secrets: readonly string[]) {
  const others = [...new Set(api.operations.flatMap(({ server }) => server ?? []))];
  const auth = secrets.map((text) => {
    const [, scheme = "", names = ""] = /^([^=]+)=([A-Za-z_]\w*(?::[A-Za-z_]\w*)?)$/.exec(text) ?? [];
    if (!Object.hasOwn(api.schemes, scheme)) {
      const known = Object.keys(api.schemes).join(", ") || "none";
      throw createUsageError(
        `--secret ${quoteName(text)} is not <scheme>=<NAME>`,
        `The document has these schemes: ${known}.`,
      );
    }
    return [
      scheme,
      names
        .split(":")
        .map((name) => `\${secret:${name}}`)
        .join(":"),
    ] as const;
  });
  return {
    server: api.server ?? "",
    ...omitUndefined({ other_servers: others.length > 0 ? others : undefined }),
    source,
    auth: Object.fromEntries(auth) as Record<string, string>,
  };
}

/** The first set of schemes of each operation, as far as it has no credential. */
function listMissingSchemes({ api }: Compilation, auth: Readonly<Record<string, string>>): readonly string[] {
  const needed = api.operations
    .filter(
      ({ security }) => security.length > 0 && !security.some((set) => set.every((each) => Object.hasOwn(auth, each))),
    )
    .flatMap(({ security }) => security[0] ?? []);
  return [...new Set(needed)];
}
