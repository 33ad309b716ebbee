import { type Skill as SkillEntry, skillEntry } from "@modelcontextprotocol/server/ext/skills";
import type { UsableSkill } from "../../app/action-summaries.ts";
import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Caller } from "../../core/caller.ts";
import { getErrorMessage } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { LruMap } from "../../core/lru-map.ts";
import { SEPARATOR } from "../../core/names.ts";
import type { Outcome } from "../../core/outcome.ts";
import { toRawResult } from "./tool-results.ts";

export type ServedSkills = ReturnType<typeof createServedSkills>;
type KnownEntry = { readonly version: string | undefined; readonly entry: SkillEntry | undefined };
/** Reads a file of a skill through `invoke`, so that the read is decided, recorded and charged. */
type CallSkill = (name: string, args: JsonObject) => Promise<Outcome>;

const PAGE_SIZE = 100;
const ENTRIES_LIMIT = 2000;
const SCHEME = "skill://";

/** The skills that MCP clients get with all their files, as `io.modelcontextprotocol/skills` describes them. */
export function createServedSkills(quartermaster: Pick<Quartermaster, "skills">, onProblem: (problem: string) => void) {
  // Entries hold what every caller with the skill may know, so all callers share them.
  const entries = new LruMap<string, KnownEntry>(ENTRIES_LIMIT);
  const reported = new LruMap<string, string>(ENTRIES_LIMIT);

  /** Undefined: it cannot be served. The reason is reported once. */
  async function getEntry(skill: UsableSkill): Promise<SkillEntry | undefined> {
    const { name, files } = skill;
    const report = (thrown: unknown) => {
      const problem = `${name} is not served as a skill: ${getErrorMessage(thrown)}`;
      if (reported.get(name) !== problem) onProblem(problem);
      reported.set(name, problem);
      return undefined;
    };
    const opened = await files().catch(report);
    if (opened === undefined) return undefined;
    const { version, read } = opened;
    const known = entries.get(name);
    if (version !== undefined && known?.version === version) return known.entry;
    // A refusal is not cached: a person may accept the skill as it is.
    const contents = await read().catch(report);
    if (contents === undefined) return undefined;
    const built = await skillEntry(toPath(skill), Object.fromEntries(contents)).catch(report);
    entries.set(name, { version, entry: built });
    return built;
  }

  /** The skill that a URI belongs to. Undefined: there is none that the caller may have. */
  const findSkill = (caller: Caller, uri: string): UsableSkill | undefined =>
    quartermaster.skills(caller).find((skill) => uri.startsWith(`${SCHEME}${toPath(skill)}/`));

  return {
    /** A page of entries, by name. `cursor`: the name that the page before ended with. */
    async list(caller: Caller, cursor = "") {
      const rest = quartermaster.skills(caller).filter(({ entry }) => entry > cursor);
      const page = rest.slice(0, PAGE_SIZE);
      const skills: SkillEntry[] = [];
      for (const skill of page) skills.push(...[await getEntry(skill)].filter((each) => each !== undefined));
      const last = page.at(-1)?.entry;
      return { skills, ...(rest.length > page.length && last !== undefined ? { nextCursor: last } : {}) };
    },
    /** Names and descriptions. If they change, clients that have listed the skills are told. */
    summarize: (caller: Caller): readonly JsonObject[] =>
      quartermaster.skills(caller).map(({ entry, description }) => ({ name: entry, description })),
    async get(caller: Caller, uri: string): Promise<SkillEntry | undefined> {
      const skill = findSkill(caller, uri);
      const entry = skill && (await getEntry(skill));
      return entry?.uri === uri ? entry : undefined;
    },
    /** The result of `resources/read` for a file of a skill. Undefined: the URI belongs to no skill of the caller. */
    async read(caller: Caller, uri: string, call: CallSkill): Promise<JsonObject | undefined> {
      const skill = findSkill(caller, uri);
      const resources = (skill && (await getEntry(skill)))?.resources;
      if (skill === undefined || !Array.isArray(resources) || !resources.some((each) => each.uri === uri))
        return undefined;
      const file = decodeURIComponent(uri.slice(`${SCHEME}${toPath(skill)}/`.length));
      const { base64 } = toRawResult(await call(skill.name, { file, base64: true }));
      return { contents: [{ uri, ...toContents(file, Buffer.from(String(base64), "base64")) }] };
    },
  };
}

/** The path of a skill's URI. It must end with the skill's own name. No skill can be called `world.<name>`. */
const toPath = ({ entry, world }: UsableSkill): string =>
  world === undefined ? entry : `world.${world}/${entry.slice(world.length + SEPARATOR.length)}`;

/** Text only if its bytes can be had back from it: clients check their digest. */
function toContents(file: string, bytes: Buffer): JsonObject {
  const text = bytes.toString("utf8");
  if (!Buffer.from(text, "utf8").equals(bytes))
    return { mimeType: "application/octet-stream", blob: bytes.toString("base64") };
  return { mimeType: /\.(?:md|markdown)$/i.test(file) ? "text/markdown" : "text/plain", text };
}
