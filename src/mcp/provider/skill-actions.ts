import { hash } from "node:crypto";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { decodeText } from "../../core/decode-text.ts";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { canonicalJson, isRecord, type JsonObject, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { formatSkillText, SKILL_RESULT_CHARS, selectLines, skillFileInput } from "../../core/skill-text.ts";
import { readYamlText } from "../../core/yaml.ts";
import type { KnownTool } from "../manifests/known-tools.ts";
import { hashDefinition } from "../manifests/offer.ts";
import { listSkillFiles, type OfferedSkill, SKILL_FILE, type SkillFileEntry } from "../manifests/offered-skill.ts";
import { resolveToolTraits } from "../manifests/tool-traits.ts";
import type { ServerSpec } from "../server-spec.ts";
import {
  getReadiness,
  MCP_CATEGORY,
  requireUsable,
  type ServerAccess,
  sendRequest,
  toDefinitionEntry,
  toServerSource,
} from "./tool-actions.ts";

const FRONT_MATTER = /^---[ \t\r]*\n((?:[^\n]*\n)*?)---[ \t\r]*(?:\n|$)/;
const FRONT_MATTER_LIMIT = 16 * 1024;

type SkillFile = Pick<SkillFileEntry, "uri"> & Partial<SkillFileEntry>;

/**
 * A skill of a server as an action. A person approves its first use, and with it the digests of all its files. Undefined
 * if the configuration disables it.
 */
export function createSkillAction(
  access: ServerAccess,
  spec: ServerSpec,
  { definition, marks }: KnownTool,
): Action | undefined {
  const { name: tool, description = "", skill } = definition;
  const readOnly = { name: tool, annotations: { readOnlyHint: true } };
  const { enabled, tags, approval, loading } = resolveToolTraits(readOnly, { ...spec, trustAnnotations: true });
  if (skill === undefined || !enabled) return undefined;
  const { name: server } = spec;
  const getState = () => access.manifests.tool(server, tool)?.state;
  const isAlwaysAsked = approval === true || skill.resources === "dynamic";
  const preview = formatPreview(server, skill);
  return defineAction(MCP_CATEGORY, {
    entry: toDefinitionEntry(server, definition),
    description,
    effect: "read",
    idempotent: true,
    tags: [
      ...new Set(["skill", "instruction", toServerSource(server), ...tags, ...(marks.length > 0 ? ["suspect"] : [])]),
    ],
    source: toServerSource(server),
    type: "instruction",
    resultChars: SKILL_RESULT_CHARS,
    ...omitUndefined({ loading, timeoutMs: spec.callTimeoutMs }),
    requiresApproval: isAlwaysAsked || (() => (getState() === "unapproved" ? "user" : "auto")),
    preview: async () => preview,
    readiness: () => (getState() === "withheld" ? "quarantined" : getReadiness(access, server)),
    input: skillFileInput,
    async run({ file, offset }, context) {
      const path = file ?? SKILL_FILE;
      const files = listSkillFiles(skill);
      const entry = files.get(path);
      if (entry === undefined) throw fileNotFoundError(skill, path, [...files.keys()]);
      const check = () => requireApproved(access, spec, definition.name, hashDefinition(definition), preview, context);
      await check();
      const request = { method: "resources/read", params: { uri: entry.uri } };
      const bytes = readFile(server, entry, await sendRequest(access, spec, request, context, check));
      const text = decodeText(bytes);
      if (text === undefined)
        throw new QmError("unsupported_content", `${quoteName(path)} is not text`, {
          details: { bytes: bytes.length },
        });
      const body = path === SKILL_FILE ? readBody(server, skill, text) : undefined;
      await rememberApproval(access, spec, definition.name, hashDefinition(definition), context);
      if (file !== undefined || body === undefined) return selectLines(path, text, offset);
      const others = [...files.keys()].filter((each) => each !== SKILL_FILE);
      return formatSkillText({
        name: String(skill.frontmatter.name),
        from: toServerSource(server),
        body,
        files: others,
      });
    },
  });
}

/** All that the person agrees to. Nothing is cut. */
function formatPreview(server: string, skill: OfferedSkill): string {
  const { uri, frontmatter, resources } = skill;
  const files = [...listSkillFiles(skill)].map(([path, { size, digest }]) => `${path}: ${size} bytes, ${digest}`);
  return [
    `let the model follow the instructions of a skill of the MCP server ${server}`,
    `skill: ${uri}`,
    `description: ${toOneLine(String(frontmatter.description))}`,
    ...(resources === "dynamic" ? ["careful: the server does not say in advance what it sends"] : files),
  ].join("\n");
}

/** Checks that a person has accepted exactly these digests, now or before. Runs again when the server's offer is known. */
async function requireApproved(
  access: ServerAccess,
  { name: server }: ServerSpec,
  tool: string,
  hash: string,
  preview: string,
  { approvalDecision }: CallContext,
): Promise<void> {
  const findKnown = () => access.manifests.tool(server, tool);
  if (findKnown()?.state !== "unapproved") await requireUsable(access, server, tool);
  const known = findKnown();
  const isSame = known !== undefined && hashDefinition(known.definition) === hash;
  if (isSame && (known.state === "usable" || approvalDecision?.preview === preview)) return;
  const hint = "It was not read. Call it again: a person is asked about the present files.";
  throw new QmError("conflict", `the files of ${tool} of ${server} are not those that a person approved`, { hint });
}

/** Pins the digests that a person has approved with this call. Another call may have done so meanwhile. */
async function rememberApproval(
  { manifests }: ServerAccess,
  { name: server, pin }: ServerSpec,
  tool: string,
  hash: string,
  { approvalDecision }: CallContext,
): Promise<void> {
  const { state } = manifests.tool(server, tool) ?? {};
  if (approvalDecision === undefined || state !== "unapproved" || !pin) return;
  await manifests.accept(server, tool, approvalDecision.by, hash).catch((thrown: unknown) => {
    if (!(thrown instanceof QmError) || !["not_found", "conflict"].includes(thrown.code)) throw thrown;
  });
}

/** The bytes of a file, if they are those that the server listed. */
function readFile(server: string, { uri, size, digest }: SkillFile, { contents }: JsonObject): Uint8Array {
  const content = Array.isArray(contents) ? contents.find((each) => isRecord(each) && each.uri === uri) : undefined;
  const { text, blob } = isRecord(content) ? content : {};
  const bytes = typeof text === "string" ? Buffer.from(text, "utf8") : decodeBase64(blob);
  if (bytes === undefined) throw unverifiedError(server, uri, "sent no content");
  if (size !== undefined && bytes.length !== size)
    throw unverifiedError(server, uri, `sent ${bytes.length} bytes and listed ${size}`);
  if (digest !== undefined && `sha256:${hash("sha256", bytes, "hex")}` !== digest)
    throw unverifiedError(server, uri, "sent content with another digest than it listed");
  return bytes;
}

function decodeBase64(blob: unknown): Uint8Array | undefined {
  return typeof blob === "string" && /^[\w+/-]*={0,2}$/.test(blob) ? Buffer.from(blob, "base64") : undefined;
}

/** The instructions without the front matter, which must be the listed one: the person and the scan saw that. */
function readBody(server: string, { uri, frontmatter }: OfferedSkill, text: string): string {
  const [whole, yaml = ""] = FRONT_MATTER.exec(text.slice(0, FRONT_MATTER_LIMIT)) ?? [];
  const { value, problems } = readYamlText(yaml);
  if (whole === undefined || problems.length > 0 || canonicalJson(value) !== canonicalJson(frontmatter))
    throw unverifiedError(server, uri, "sent other front matter than it listed");
  return text.slice(whole.length);
}

function unverifiedError(server: string, uri: string, what: string): QmError {
  const hint = "It was not used. Tell {user} that the server's list of skills does not match their files.";
  return new QmError("action_failed", `${server} ${what}, for ${quoteName(uri)}`, { hint });
}

function fileNotFoundError({ frontmatter, resources }: OfferedSkill, path: string, files: readonly string[]): QmError {
  const why = resources === "dynamic" ? ": the server lists no files of it" : didYouMean(path, files);
  const hint = "Call the skill without `file` to see its files.";
  return new QmError("not_found", `the skill ${frontmatter.name} has no file ${quoteName(path)}${why}`, { hint });
}
