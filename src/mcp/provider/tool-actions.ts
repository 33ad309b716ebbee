import { hash } from "node:crypto";
import { isAbsolute, resolve } from "node:path";
import type { Action, CallContext, Readiness } from "../../core/action.ts";
import { QmError, toErrorDetails } from "../../core/errors.ts";
import { type ContentBlock, formatContent, WithContent } from "../../core/handler-result.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";
import { actionName, quoteName, SEPARATOR } from "../../core/names.ts";
import type { ArgumentForms } from "../../core/normalize-arguments.ts";
import type { ConnectionState, Hub } from "../hub/hub.ts";
import type { KnownTool } from "../manifests/known-tools.ts";
import type { ManifestService } from "../manifests/manifest-service.ts";
import { resolveToolTraits } from "../manifests/tool-traits.ts";
import type { Launch, ServerSpec, ToolOverride } from "../server-spec.ts";

const MAX_NAME_LENGTH = 200;
// A slash is for what is no tool, such as `resources/read`; MCP does not have it in names of tools.
const REFUSED_CHARACTERS = /[^\p{L}\p{N}\p{M}_.:@+~-]/gu;

/**
 * What a server's tool is called within the category: the server's name and its own. A name that is too long or holds what
 * no entry may hold is cut and gets a hash of the whole, so that two tools never become one.
 */
export function toToolEntry(server: string, tool: string): string {
  const fits =
    tool.length <= MAX_NAME_LENGTH &&
    tool !== "" &&
    tool.search(REFUSED_CHARACTERS) < 0 &&
    tool.normalize("NFC") === tool;
  if (fits) return `${server}${SEPARATOR}${tool}`;
  const plain = tool.normalize("NFC").replace(REFUSED_CHARACTERS, "_").slice(0, MAX_NAME_LENGTH);
  return `${server}${SEPARATOR}${plain}-${hash("sha256", tool, "hex").slice(0, 12)}`;
}

/** What something else that a server offers is called, by the method of MCP that it stands for. */
export function toMethodEntry(server: string, method: string): string {
  return `${server}${SEPARATOR}${method}`;
}

/** The normal forms of a tool's arguments, as the configuration declares them. */
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
  if (path.startsWith("~")) throw refuse("starts with ~, which stands for nothing here", "Give an absolute path.");
  // Where a reference is in the folder, or the server is elsewhere, nobody here knows what a relative path means.
  const isKnown = folder !== undefined && !folder.includes("${");
  if (!isKnown && !isAbsolute(path)) throw refuse("is relative, and to what is not known", "Give an absolute path.");
  return resolve(folder ?? "/", path);
}

const ERROR_TEXT_LIMIT = 600;
/** An object with this many fields is a list in disguise, and each of them costs far more than an item of a list. */
const FIELD_LIMIT = 20_000;

/**
 * A tool's result as a handler answers it: its structured result as data where it has one, else its text. Throws
 * `action_failed` with what the tool said when it says that it failed.
 */
export function readToolResult(tool: string, result: JsonObject): unknown {
  const blocks = readBlocks(result.content);
  const meta = isRecord(result._meta) ? { meta: result._meta as JsonObject } : {};
  const { structuredContent } = result;
  if (result.isError === true) {
    const said = formatContent(blocks, ERROR_TEXT_LIMIT) || "it did not say why";
    throw new QmError("action_failed", `${tool} failed: ${said}`, { content: { blocks, ...meta } });
  }
  if (isWide(structuredContent)) {
    throw new QmError("action_failed", `${tool} answered an object with more than ${FIELD_LIMIT} fields`, {
      hint: "Ask for less at a time.",
    });
  }
  if (structuredContent !== undefined) return new WithContent(structuredContent, { blocks, structured: true, ...meta });
  const texts = blocks.map(readPlainText);
  const isText = texts.every((text) => text !== undefined);
  if (isText && texts.length === 1 && !("meta" in meta)) return texts[0];
  return new WithContent(isText ? texts.join("\n") : blocks, { blocks, ...meta });
}

function isWide(value: unknown): boolean {
  const open: unknown[] = [value];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (typeof part !== "object" || part === null) continue;
    if (!Array.isArray(part) && Object.keys(part).length > FIELD_LIMIT) return true;
    for (const inner of Object.values(part)) if (typeof inner === "object" && inner !== null) open.push(inner);
  }
  return false;
}

/** What was read of a resource: whole as data, its texts for a model. */
export function readResourceResult(result: JsonObject): unknown {
  const contents = Array.isArray(result.contents) ? result.contents.filter(isRecord) : [];
  const blocks = contents.map((resource): ContentBlock => ({ type: "resource", resource: resource as JsonObject }));
  return new WithContent(result, { blocks });
}

/** A filled-in prompt: whole as data, its messages for a model. */
export function readPromptResult(result: JsonObject): unknown {
  const messages = Array.isArray(result.messages) ? result.messages.filter(isRecord) : [];
  return new WithContent(result, { blocks: messages.flatMap(({ content }) => readBlocks([content])) });
}

function readBlocks(content: unknown): readonly ContentBlock[] {
  if (!Array.isArray(content)) return [];
  return content.filter((block): block is ContentBlock => isRecord(block) && typeof block.type === "string");
}

/** The text of a block that is text and nothing else. */
function readPlainText(block: ContentBlock): string | undefined {
  const isPlain = block.type === "text" && Object.keys(block).length === 2;
  return isPlain && typeof block.text === "string" ? block.text : undefined;
}

export const MCP_CATEGORY = "mcp";

/** What the actions of servers reach their servers by. */
export interface ServerAccess {
  readonly hub: Pick<Hub, "connect" | "request" | "status">;
  readonly book: Pick<ManifestService, "tool" | "refresh">;
}

/** A server's tool as an action. Undefined where the configuration takes it away. */
export function createToolAction(reach: ServerAccess, spec: ServerSpec, known: KnownTool): Action | undefined {
  const { definition } = known;
  const {
    effect,
    tags,
    idempotent,
    approval,
    loading,
    enabled,
    arguments: forms,
  } = resolveToolTraits(definition, spec);
  if (!enabled) return undefined;
  const { name: tool, title, description, inputSchema, outputSchema } = definition;
  const entry = toToolEntry(spec.name, tool);
  const marks = known.marks.length > 0 ? ["suspect"] : [];
  return Object.freeze({
    name: actionName(MCP_CATEGORY, entry),
    category: MCP_CATEGORY,
    entry,
    description: description || title || `${tool} of ${spec.name}. Its server says nothing about it.`,
    inputSchema,
    ...(outputSchema === undefined ? {} : { outputSchema }),
    effect,
    tags: [...new Set([...tags, ...marks])],
    aliases: [entry, `${spec.name}.${tool}`, `${spec.name}/${tool}`],
    examples: [],
    scope: "generalist",
    routing: "routed",
    ...(approval === undefined ? {} : { requiresApproval: approval }),
    peerExposed: false,
    ...(loading === undefined ? {} : { loading }),
    ...(forms === undefined ? {} : { normalize: createArgumentForms(forms, spec.launch) }),
    readiness: () =>
      reach.book.tool(spec.name, tool)?.state === "withheld" ? "quarantined" : getReadiness(reach, spec.name),
    idempotent,
    ...(spec.callTimeoutMs === undefined ? {} : { timeoutMs: spec.callTimeoutMs }),
    run: (args, context) => callTool(reach, spec, tool, args, context),
  } satisfies Action);
}

async function callTool(
  reach: ServerAccess,
  spec: ServerSpec,
  tool: string,
  args: JsonObject,
  context: CallContext,
): Promise<unknown> {
  // Once so that nothing is started for what is withheld, and once more when the server has said what it offers now.
  const usable = () => requireUsable(reach, spec.name, tool);
  await usable();
  const request = { method: "tools/call", params: { name: tool, arguments: args } };
  return readToolResult(tool, await sendRequest(reach, spec, request, context, usable));
}

/** Sends a request for a call of an action. */
export async function sendRequest(
  reach: ServerAccess,
  spec: ServerSpec,
  request: { readonly method: string; readonly params: JsonObject },
  { signal, dialogue, trace, untimed }: CallContext,
  before?: () => Promise<void>,
): Promise<JsonObject> {
  // How long a server takes to start is no part of a call's time: the start has a limit of its own.
  await untimed(() => reach.hub.connect(spec.name, signal));
  return reach.hub.request(spec.name, request, { signal, dialogue, before, trace });
}

const readinessByState: Readonly<Record<ConnectionState, Readiness>> = {
  idle: "not_started",
  starting: "not_started",
  ready: "ready",
  needs_login: "needs_login",
  failed: "unavailable",
};

export function getReadiness({ hub }: ServerAccess, server: string): Readiness {
  try {
    return readinessByState[hub.status(server).state];
  } catch {
    // It was taken away since the action was listed.
    return "unavailable";
  }
}

async function requireUsable({ book }: ServerAccess, server: string, tool: string): Promise<void> {
  if (book.tool(server, tool)?.state === "usable") return;
  // A person may have accepted it meanwhile, in another process.
  await book.refresh();
  const state = book.tool(server, tool)?.state;
  if (state === "usable") return;
  if (state === "withheld") {
    throw new QmError(
      "quarantined",
      `${server} has changed what ${tool} is; it is withheld until a person accepts it`,
      {
        hint: `It was not run. A person can look at the change with \`qm servers review ${server}\`.`,
        details: toErrorDetails({ server, tool }),
      },
    );
  }
  throw new QmError("not_found", `${server} does not offer ${tool} any more`, {
    hint: "Look for another action.",
  });
}
