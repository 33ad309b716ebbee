import { hash } from "node:crypto";
import { isAbsolute, resolve } from "node:path";
import { getAbortable } from "../../core/abortable.ts";
import type { Action, CallContext, Readiness } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { type ContentBlock, formatContent, WithContent } from "../../core/handler-result.ts";
import { hasWideObject, isRecord, type JsonObject, OBJECT_FIELD_LIMIT, omitUndefined } from "../../core/json.ts";
import { actionName, isEntry, quoteName, SEPARATOR } from "../../core/names.ts";
import type { ArgumentForms } from "../../core/normalize-arguments.ts";
import type { Hub, ServerRequest } from "../hub/hub.ts";
import type { KnownTool } from "../manifests/known-tools.ts";
import type { ManifestService } from "../manifests/manifest-service.ts";
import type { OfferedTool } from "../manifests/offer.ts";
import { resolveToolTraits } from "../manifests/tool-traits.ts";
import type { Launch, ServerSpec, ToolOverride } from "../server-spec.ts";

const MAX_NAME_LENGTH = 200;
// A slash marks actions that are not tools, such as `resources/read`. MCP does not allow it in names of tools.
const REFUSED_CHARACTERS = /[^\p{L}\p{N}\p{M}_.:@+~-]/gu;

/** The entry name of a server's tool. A long or invalid tool name is cut and gets a hash, so that entries stay unique. */
export function toToolEntry(server: string, tool: string): string {
  const plain = tool.normalize("NFC").replace(REFUSED_CHARACTERS, "_").slice(0, MAX_NAME_LENGTH);
  if (plain === tool && tool !== "") return toMethodEntry(server, tool);
  return `${server}${SEPARATOR}${plain}-${hashName(tool)}`;
}

/** The entry name of a server's tool or skill. Only entries of skills begin with `skill/`. */
export function toDefinitionEntry(server: string, { name, skill }: OfferedTool): string {
  if (skill === undefined) return toToolEntry(server, name);
  const entry = toMethodEntry(server, name);
  const isPlain = isEntry(entry) && entry.length <= MAX_NAME_LENGTH;
  return isPlain ? entry : toMethodEntry(server, `skill/${String(skill.frontmatter.name)}-${hashName(name)}`);
}

const hashName = (name: string): string => hash("sha256", name, "hex").slice(0, 12);
export const toServerSource = (server: string): string => `server:${server}`;
export const toMethodEntry = (server: string, method: string): string => `${server}${SEPARATOR}${method}`;

function createArgumentForms(declared: NonNullable<ToolOverride["arguments"]>, launch: Launch): ArgumentForms {
  const folder = launch.kind === "stdio" ? launch.cwd : undefined;
  const forms = Object.entries(declared).map(([argument, form]) => [
    argument,
    form === "file" ? (path: string) => absolutePath(path, argument, folder) : form,
  ]);
  return Object.freeze(Object.fromEntries(forms));
}

function absolutePath(path: string, argument: string, folder: string | undefined): string {
  const refuse = (why: string, hint: string) =>
    new QmError("path_refused", `${argument} (${quoteName(path)}) ${why}`, { hint });
  if (path.includes("\0")) throw refuse("holds a NUL character", "Leave it out.");
  if (path.startsWith("~")) throw refuse("starts with ~, which is not expanded here", "Give an absolute path.");
  // A relative path has no meaning here if the folder holds a reference or the server is remote.
  const isKnown = folder !== undefined && !folder.includes("${");
  if (!isKnown && !isAbsolute(path)) throw refuse("is relative to an unknown folder", "Give an absolute path.");
  return resolve(folder ?? "/", path);
}

const ERROR_TEXT_LIMIT = 600;

/** A tool's structured content, else its text. Throws `action_failed` with the text if the result is an error. */
export function readToolResult(tool: string, result: JsonObject): unknown {
  const blocks = readBlocks(result.content);
  const meta = isRecord(result._meta) ? { meta: result._meta as JsonObject } : {};
  const { structuredContent } = result;
  if (result.isError === true) {
    const said = formatContent(blocks, ERROR_TEXT_LIMIT) || "it gave no reason";
    const errorData = hasWideObject(structuredContent) ? undefined : structuredContent;
    const content = { blocks, ...meta, ...omitUndefined({ errorData }) };
    throw new QmError("action_failed", `${tool} failed: ${said}`, { content });
  }
  if (hasWideObject(structuredContent)) {
    const message = `${tool} returned an object with more than ${OBJECT_FIELD_LIMIT} fields`;
    throw new QmError("action_failed", message, { hint: "Ask for less at once." });
  }
  if (structuredContent !== undefined) return new WithContent(structuredContent, { blocks, structured: true, ...meta });
  const texts = blocks.map(readPlainText);
  const isText = texts.every((text) => text !== undefined);
  if (isText && texts.length === 1 && !("meta" in meta)) return texts[0];
  return new WithContent(isText ? texts.join("\n") : blocks, { blocks, ...meta });
}

export function readResourceResult(result: JsonObject): unknown {
  const contents = Array.isArray(result.contents) ? result.contents.filter(isRecord) : [];
  const blocks = contents.map((resource): ContentBlock => ({ type: "resource", resource: resource as JsonObject }));
  return new WithContent(result, { blocks });
}

export function readPromptResult(result: JsonObject): unknown {
  const messages = Array.isArray(result.messages) ? result.messages.filter(isRecord) : [];
  return new WithContent(result, { blocks: messages.flatMap(({ content }) => readBlocks([content])) });
}

function readBlocks(content: unknown): readonly ContentBlock[] {
  if (!Array.isArray(content)) return [];
  return content.filter((block): block is ContentBlock => isRecord(block) && typeof block.type === "string");
}

/** The text of a text block without annotations or other fields. */
function readPlainText(block: ContentBlock): string | undefined {
  const isPlain = block.type === "text" && Object.keys(block).length === 2;
  return isPlain && typeof block.text === "string" ? block.text : undefined;
}

export const MCP_CATEGORY = "mcp";

export interface ServerAccess {
  readonly hub: Pick<Hub, "connect" | "isConnected" | "request" | "status">;
  readonly manifests: Pick<ManifestService, "tool" | "refresh" | "accept">;
}

/** A server's tool as an action. Undefined if the configuration disables it. */
export function createToolAction(access: ServerAccess, spec: ServerSpec, known: KnownTool): Action | undefined {
  const { definition } = known;
  const traits = resolveToolTraits(definition, spec);
  if (!traits.enabled) return undefined;
  const { effect, tags, idempotent, approval, loading, arguments: forms } = traits;
  const { name: tool, title, description, inputSchema, outputSchema } = definition;
  const entry = toToolEntry(spec.name, tool);
  return Object.freeze({
    name: actionName(MCP_CATEGORY, entry),
    category: MCP_CATEGORY,
    entry,
    description: description || title || `${tool} of ${spec.name}. The server gives no description.`,
    inputSchema,
    effect,
    tags: [...new Set([...tags, ...(known.marks.length > 0 ? ["suspect"] : [])])],
    aliases: [entry, `${spec.name}.${tool}`, `${spec.name}/${tool}`],
    examples: [],
    scope: "generalist",
    routing: "routed",
    peerExposed: false,
    isRemote: true,
    source: toServerSource(spec.name),
    ...omitUndefined({
      outputSchema,
      requiresApproval: approval,
      loading,
      normalize: forms === undefined ? undefined : createArgumentForms(forms, spec.launch),
      timeoutMs: spec.callTimeoutMs,
    }),
    readiness: () =>
      access.manifests.tool(spec.name, tool)?.state === "withheld" ? "quarantined" : getReadiness(access, spec.name),
    idempotent,
    run: (args, context) => callTool(access, spec, tool, args, context),
  } satisfies Action);
}

async function callTool(access: ServerAccess, spec: ServerSpec, tool: string, args: JsonObject, context: CallContext) {
  // Checked before the server is started, and again when its current offer is known.
  const usable = () => requireUsable(access, spec.name, tool);
  await usable();
  const request = { method: "tools/call", params: { name: tool, arguments: args } };
  return readToolResult(tool, await sendRequest(access, spec, request, context, usable));
}

export async function sendRequest(
  { hub }: ServerAccess,
  { name }: ServerSpec,
  request: ServerRequest,
  context: CallContext,
  before?: () => Promise<void>,
): Promise<JsonObject> {
  const { dialogue, trace, untimed } = context;
  const signal = getAbortable(context);
  // The start has its own time limit and does not count as time of the call.
  if (!hub.isConnected(name)) await untimed(() => hub.connect(name, signal));
  return hub.request(name, request, { signal, dialogue, before, trace });
}

export function getReadiness({ hub }: ServerAccess, server: string): Readiness {
  try {
    const { state } = hub.status(server);
    return state === "idle" || state === "starting" ? "not_started" : state === "failed" ? "unavailable" : state;
  } catch {
    // The server was removed since the action was listed.
    return "unavailable";
  }
}

export async function requireUsable({ manifests }: ServerAccess, server: string, tool: string): Promise<void> {
  if (manifests.tool(server, tool)?.state === "usable") return;
  // A person may have accepted it in another process.
  await manifests.refresh();
  const state = manifests.tool(server, tool)?.state;
  if (state === "usable") return;
  if (state !== "withheld")
    throw new QmError("not_found", `${server} no longer offers ${tool}`, { hint: "Look for another action." });
  throw new QmError("quarantined", `${server} changed the definition of ${tool}, which a person must accept first`, {
    hint: `It was not run. A person must review the change first. Tell {user} so. Run {qm servers review ${server}}.`,
    details: { server, tool },
  });
}
