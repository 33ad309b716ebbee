import { digestFiles, type FileBytes } from "../core/file-digest.ts";
import type { SkillFileHashes, SkillPin, SkillPinStore } from "../providers/skill/skill-pins.ts";
import { addContents, createGetContent, putContentUse } from "./file-contents.ts";
import { type Sql, type SqlRow, sql } from "./sql.ts";

/** The trusted digests of skills in SQL, with the files that were trusted. */
export const createSqlSkillPinStore = (db: Sql): SkillPinStore => {
  async function get(root: string, skill: string): Promise<SkillPin | undefined> {
    const [row] = await db.all(sql`
      select root, skill, digest, pinned_at, pinned_by from skill_pins where root = ${root} and skill = ${skill}`);
    return row && toPin(row);
  }
  return {
    get,
    async all() {
      return (await db.all(sql`select root, skill, digest, pinned_at, pinned_by from skill_pins`)).map(toPin);
    },
    async getFiles(root, skill) {
      const [row] = await db.all(sql`select files from skill_pins where root = ${root} and skill = ${skill}`);
      return row === undefined ? {} : (JSON.parse(String(row.files)) as SkillFileHashes);
    },
    getContent: createGetContent(db),
    async add(pin, files) {
      const { root, skill, digest, at, by } = pin;
      const isNew = await db.transaction(async (tx) => {
        const added = await tx.all(sql`
          insert into skill_pins (root, skill, digest, pinned_at, pinned_by, files)
          values (${root}, ${skill}, ${digest}, ${at.toISOString()}, ${by}, ${toHashes(files)})
          on conflict (root, skill) do nothing returning digest`);
        if (added.length > 0) await putFiles(tx, pin, files);
        return added.length > 0;
      });
      return { pin: (await get(root, skill)) ?? pin, isNew };
    },
    async replace(pin, files) {
      const { root, skill, digest, at, by } = pin;
      await db.transaction(async (tx) => {
        await tx.all(sql`
          insert into skill_pins (root, skill, digest, pinned_at, pinned_by, files)
          values (${root}, ${skill}, ${digest}, ${at.toISOString()}, ${by}, ${toHashes(files)})
          on conflict (root, skill) do update set digest = excluded.digest, pinned_at = excluded.pinned_at,
            pinned_by = excluded.pinned_by, files = excluded.files`);
        await putFiles(tx, pin, files);
      });
    },
  };
};

const toHashes = (files: FileBytes): string =>
  JSON.stringify(Object.fromEntries(digestFiles(files).map(({ path, digest }) => [path, digest])));

const putFiles = async (tx: Sql, { root, skill }: SkillPin, files: FileBytes): Promise<void> =>
  putContentUse(tx, `skill ${root}\n${skill}`, await addContents(tx, files));

const toPin = ({ root, skill, digest, pinned_at, pinned_by }: SqlRow): SkillPin => ({
  root: String(root),
  skill: String(skill),
  digest: String(digest),
  at: new Date(String(pinned_at)),
  by: String(pinned_by),
});
