import { decodeText } from "../../core/decode-text.ts";
import { QmError } from "../../core/errors.ts";
import { type FileBytes, hashBytes, toHexDigest } from "../../core/file-digest.ts";
import { canonicalJson, isRecord, type JsonObject } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { readYamlText } from "../../core/yaml.ts";
import type { Hub } from "../hub/hub.ts";
import {
  listSkillFiles,
  type OfferedSkill,
  SKILL_FILE,
  type SkillFileEntry,
  TEXT_BYTES,
} from "../manifests/offered-skill.ts";

const FRONT_MATTER = /^---[ \t\r]*\n((?:[^\n]*\n)*?)---[ \t\r]*(?:\n|$)/;
const FRONT_MATTER_LIMIT = 16 * 1024;
/** Requests for files of one skill at the same time. */
const AT_ONCE = 8;

type SkillFile = Pick<SkillFileEntry, "uri"> & Partial<SkillFileEntry>;
type SkillReader = Pick<Hub, "connect" | "request">;

/** Reads all files of a skill from its server and checks that they are those it listed. */
export async function readSkillFiles(
  hub: SkillReader,
  server: string,
  skill: OfferedSkill,
  { signal, before }: Pick<Parameters<Hub["request"]>[2], "signal" | "before">,
): Promise<FileBytes> {
  await hub.connect(server, signal);
  const entries = [...listSkillFiles(skill)];
  const files = new Map<string, Uint8Array>();
  for (let at = 0; at < entries.length; at += AT_ONCE) {
    const portion = entries.slice(at, at + AT_ONCE).map(async ([path, entry]) => {
      const sent = await hub.request(server, toReadRequest(entry), { signal, before });
      return [path, checkFile(server, entry, sent)] as const;
    });
    for (const [path, bytes] of await Promise.all(portion)) files.set(path, bytes);
  }
  readBody(server, skill, decodeText(files.get(SKILL_FILE) ?? new Uint8Array()) ?? "");
  return files;
}

export const toReadRequest = ({ uri }: Pick<SkillFile, "uri">) => ({ method: "resources/read", params: { uri } });

/** The bytes of a file, if they are those that the server listed. */
export function checkFile(server: string, { uri, size, digest }: SkillFile, { contents }: JsonObject): Uint8Array {
  const content = Array.isArray(contents) ? contents.find((each) => isRecord(each) && each.uri === uri) : undefined;
  const { text, blob } = isRecord(content) ? content : {};
  const bytes = typeof text === "string" ? Buffer.from(text, "utf8") : decodeBase64(blob);
  if (bytes === undefined) throw unverifiedError(server, uri, "sent no content");
  if (size !== undefined && bytes.length !== size)
    throw unverifiedError(server, uri, `sent ${bytes.length} bytes and listed ${size}`);
  if (digest === undefined && bytes.length > TEXT_BYTES)
    throw unverifiedError(server, uri, `sent more than ${TEXT_BYTES} bytes`);
  if (digest !== undefined && hashBytes(bytes) !== toHexDigest(digest))
    throw unverifiedError(server, uri, "sent content with another digest than it listed");
  return bytes;
}

function decodeBase64(blob: unknown): Uint8Array | undefined {
  return typeof blob === "string" && /^[\w+/-]*={0,2}$/.test(blob) ? Buffer.from(blob, "base64") : undefined;
}

/** The instructions without the front matter, which must be the listed one: the person and the scan saw that. */
export function readBody(server: string, { uri, frontmatter }: OfferedSkill, text: string): string {
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
