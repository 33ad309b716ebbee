import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { decodeText } from "../../core/decode-text.ts";
import { formatCount, toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { digestFiles, type FileDigest, hashFiles, toHexDigest } from "../../core/file-digest.ts";
import { omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import { formatSkillText, SKILL_RESULT_CHARS, selectLines, skillFileInput } from "../../core/skill-text.ts";
import type { KnownTool } from "../manifests/known-tools.ts";
import { hashDefinition, type OfferedTool } from "../manifests/offer.ts";
import { listSkillFiles, type OfferedSkill, SKILL_FILE } from "../manifests/offered-skill.ts";
import { resolveToolTraits } from "../manifests/tool-traits.ts";
import type { ServerSpec } from "../server-spec.ts";
import { checkFile, readBody, readSkillFiles, toReadRequest } from "./skill-files.ts";
import {
  getReadiness,
  MCP_CATEGORY,
  requireUsable,
  type ServerAccess,
  sendRequest,
  toDefinitionEntry,
  toServerSource,
} from "./tool-actions.ts";

/**
 * A skill of a server as an action. A person approves its first use and can read all its files before, which are then the
 * ones that are used. Undefined if the configuration disables it.
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
    async preview(_args, signal) {
      const before = async () => requireListed(access, spec, definition);
      const files = await readSkillFiles(access.hub, server, skill, { signal, before });
      return { text: formatPreview(server, skill, digestFiles(files)), files };
    },
    readiness: () => (getState() === "withheld" ? "quarantined" : getReadiness(access, server)),
    input: skillFileInput,
    async run({ file, offset }, context) {
      const path = file ?? SKILL_FILE;
      const files = listSkillFiles(skill);
      const entry = files.get(path);
      if (entry === undefined) throw fileNotFoundError(skill, path, [...files.keys()]);
      const check = () => requireApproved(access, spec, definition, skill, context);
      await check();
      // After an approval, the stored bytes are used, which the person could read.
      const bytes =
        context.approvalDecision === undefined
          ? checkFile(server, entry, await sendRequest(access, spec, toReadRequest(entry), context, check))
          : await context.approvalDecision.readFile(path);
      if (bytes === undefined) throw createOtherFilesError(server, tool);
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

/** The digest stands for all files, so the same text means the same files. */
function formatPreview(server: string, { uri, frontmatter }: OfferedSkill, files: readonly FileDigest[]): string {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  return [
    `let the model follow the instructions of a skill of the MCP server ${server}`,
    `skill: ${uri}`,
    `description: ${toOneLine(String(frontmatter.description))}`,
    `digest: ${hashFiles(files)}`,
    `${formatCount(files.length, "file")}, ${formatCount(bytes, "byte")}`,
  ].join("\n");
}

const listOfferedFiles = (skill: OfferedSkill): readonly FileDigest[] =>
  Array.from(listSkillFiles(skill), ([path, { size = 0, digest = "" }]) => ({
    path,
    size,
    digest: toHexDigest(digest),
  }));

/** The server may have been started and listed just now. */
function requireListed({ manifests }: ServerAccess, { name: server }: ServerSpec, definition: OfferedTool): void {
  const known = manifests.tool(server, definition.name);
  if (known !== undefined && hashDefinition(known.definition) === hashDefinition(definition)) return;
  const hint = "It was not read. Call it again: a person is asked about the present files.";
  throw new QmError("conflict", `${server} has changed ${definition.name}`, { hint });
}

/** Checks that a person has accepted exactly these digests, now or before. Runs again when the server's offer is known. */
async function requireApproved(
  access: ServerAccess,
  spec: ServerSpec,
  definition: OfferedTool,
  skill: OfferedSkill,
  { approvalDecision }: CallContext,
): Promise<void> {
  const { name: server } = spec;
  const { name: tool } = definition;
  const findState = () => access.manifests.tool(server, tool)?.state;
  if (findState() !== "unapproved") await requireUsable(access, server, tool);
  requireListed(access, spec, definition);
  // A dynamic skill lists no digests. The files that are used are the approved ones.
  const files = skill.resources === "dynamic" ? (approvalDecision?.files ?? []) : listOfferedFiles(skill);
  if (findState() === "usable" && approvalDecision === undefined && skill.resources !== "dynamic") return;
  if (approvalDecision?.preview !== formatPreview(server, skill, files)) throw createOtherFilesError(server, tool);
}

function createOtherFilesError(server: string, tool: string): QmError {
  const hint = "It was not read. Call it again: a person is asked about the present files.";
  return new QmError("conflict", `the files of ${tool} of ${server} are not those that a person approved`, { hint });
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

function fileNotFoundError({ frontmatter, resources }: OfferedSkill, path: string, files: readonly string[]): QmError {
  const why = resources === "dynamic" ? ": the server lists no files of it" : didYouMean(path, files);
  const hint = "Call the skill without `file` to see its files.";
  return new QmError("not_found", `the skill ${frontmatter.name} has no file ${quoteName(path)}${why}`, { hint });
}
