import type { SkillFileHashes, SkillPin, SkillPinStore } from "../providers/skill/skill-pins.ts";
import { type Sql, type SqlRow, sql } from "./sql.ts";

/** The trusted digests of skills in SQL. */
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
    async add(pin, files) {
      const { root, skill, digest, at, by } = pin;
      const added = await db.all(sql`
        insert into skill_pins (root, skill, digest, pinned_at, pinned_by, files)
        values (${root}, ${skill}, ${digest}, ${at.toISOString()}, ${by}, ${JSON.stringify(files)})
        on conflict (root, skill) do nothing returning digest`);
      return { pin: (await get(root, skill)) ?? pin, isNew: added.length > 0 };
    },
    async replace({ root, skill, digest, at, by }, files) {
      await db.all(sql`
        insert into skill_pins (root, skill, digest, pinned_at, pinned_by, files)
        values (${root}, ${skill}, ${digest}, ${at.toISOString()}, ${by}, ${JSON.stringify(files)})
        on conflict (root, skill) do update set digest = excluded.digest, pinned_at = excluded.pinned_at,
          pinned_by = excluded.pinned_by, files = excluded.files`);
    },
  };
};

const toPin = ({ root, skill, digest, pinned_at, pinned_by }: SqlRow): SkillPin => ({
  root: String(root),
  skill: String(skill),
  digest: String(digest),
  at: new Date(String(pinned_at)),
  by: String(pinned_by),
});
