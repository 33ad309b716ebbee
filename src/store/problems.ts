import type { ProblemStore, ServerProblem } from "../mcp/hub/problem-store.ts";
import { type Sql, sql } from "./sql.ts";

/** What was wrong with servers, in SQL: one row for each that did not work when it was last tried. */
export function problemStore(db: Sql): ProblemStore {
  return {
    async set(server, { fingerprint, state, message }) {
      await db.all(sql`
        insert into server_problems (server, fingerprint, state, message)
        values (${server}, ${fingerprint}, ${state}, ${message})
        on conflict (server) do update set fingerprint = excluded.fingerprint, state = excluded.state,
          message = excluded.message`);
    },
    async clear(server) {
      await db.all(sql`delete from server_problems where server = ${server}`);
    },
    async all() {
      const rows = await db.all(sql`select server, fingerprint, state, message from server_problems`);
      return new Map(
        rows.map((row) => [
          String(row.server),
          {
            fingerprint: String(row.fingerprint),
            state: row.state as ServerProblem["state"],
            message: String(row.message),
          },
        ]),
      );
    },
  };
}
