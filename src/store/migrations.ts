import { QmError } from "../core/errors.ts";
import { type Sql, type SqlDialect, type SqlDriver, type SqlQuery, sql } from "./sql.ts";

/** One step of the schema. A released step never changes; a later step corrects it. */
export type Migration = { readonly name: string; readonly statements: (dialect: SqlDialect) => readonly SqlQuery[] };

/** All steps in order. The version of a store is the number of steps it has taken. */
export const migrations: readonly Migration[] = [
  {
    name: "the ledger and usage",
    statements: ({ identity }) => [
      sql`create table events (
        id ${identity}, session text not null, seq bigint not null, type text not null, at text not null,
        actor text, tenant text, turn text, user_id text, person text, call_id text, action text,
        data text not null, prev text not null, hash text not null, unique (session, seq))`,
      // Every line updates every index, and a call waits for its lines. So only lookups that must not slow down as the
      // table grows have an index; the others read backwards from the newest line.
      sql`create index events_by_call on events (call_id) where call_id is not null`,
      sql`create table chains (session text primary key, seq bigint not null, hash text not null)`,
      sql`create table usage (
        key text primary key, calls bigint not null, ms bigint not null, bytes bigint not null,
        updated_at text not null)`,
    ],
  },
  {
    name: "shelves and uses of actions",
    statements: () => [
      sql`create table shelves (
        shelf text not null, position bigint not null, name text not null, put_at text not null,
        primary key (shelf, name), unique (shelf, position))`,
      sql`create table action_use (
        owner text not null, action text not null, weight double precision not null, at text not null,
        primary key (owner, action))`,
    ],
  },
  {
    name: "the search index",
    statements: ({ bytes }) => [
      // Short columns come before the vector, so that reading them does not read the whole row.
      sql`create table vectors (
        model text not null, hash text not null, used_at text not null, vector ${bytes} not null,
        primary key (model, hash))`,
      sql`create table vector_sets (
        catalog text not null, model text not null, used_at text not null, primary key (catalog, model))`,
      sql`create table locks (
        name text primary key, holder text not null, pid bigint not null, host text not null,
        lease_until text not null)`,
    ],
  },
  {
    name: "MCP servers",
    statements: () => [
      sql`create table manifests (
        server text primary key, revision bigint not null, fingerprint text not null, learned_at text not null,
        offer text not null)`,
      sql`create table manifest_revisions (name text primary key, last bigint not null)`,
      sql`create table pins (
        server text not null, hash text not null, state text not null, seen_at text not null,
        grounds text not null, definition text not null, primary key (server, hash))`,
      sql`create table processes (
        host text not null, pid bigint not null, started_at text not null, server text not null,
        owner_pid bigint not null, primary key (host, pid, started_at))`,
      sql`create table server_problems (
        server text primary key, fingerprint text not null, state text not null, message text not null)`,
      sql`create table registry_servers (
        registry text not null, name text not null, version text not null, status text not null,
        title text not null, description text not null, seen_at text not null, entry text not null,
        primary key (registry, name))`,
      sql`create table registry_marks (
        registry text primary key, synced_at text, full_at text, updated_since text, cursor text)`,
    ],
  },
  {
    name: "approvals, turns and anchored values",
    statements: () => [
      // Long columns come last here, too: lists are read without them.
      sql`create table approvals (
        id text primary key, call_id text not null, state text not null, action text not null,
        definition text not null, args text not null, caller text not null, actor text not null,
        session text not null, turn text, tenant text, user_id text, via text not null,
        policy_version text not null, binding text not null, level text not null, rule text not null,
        reason text not null, preview text, requested_at text not null, expires_at text not null, answer text,
        executor text, executor_pid bigint, executor_host text, lease_until text, begun_at text, ended_at text,
        status text, recorded integer not null, delivered integer not null, outcome text)`,
      sql`create index approvals_by_state on approvals (state, requested_at)`,
      sql`create index approvals_by_binding on approvals (binding)`,
      sql`create index approvals_by_session on approvals (session, turn)`,
      sql`create table turns (
        id text primary key, token_hash text not null unique, state text not null, caller text not null,
        session text not null, version bigint not null, holder text, holder_pid bigint, holder_host text,
        lease_until text, started_at text not null, changed_at text not null, calls text not null,
        memo text not null)`,
      sql`create index turns_by_state on turns (state, changed_at)`,
      sql`create table anchors (
        owner text not null, token text not null, value text not null, made_at text not null,
        primary key (owner, token))`,
    ],
  },
  {
    name: "notes and collections",
    statements: ({ bytes }) => [
      // Not counted by the engine, because ids are never reused.
      sql`create table resource_ids (kind text primary key, last bigint not null)`,
      sql`insert into resource_ids (kind, last) values ('note', 0), ('collection', 0), ('origin', 0), ('owner', 0), ('revision', 0)`,
      // A scope of visibility as one key, and the revision of the last change in it.
      sql`create table owners (
        id bigint primary key, key text not null unique, reach text not null, revision bigint not null)`,
      sql`create table origins (
        id bigint primary key, tenant text not null, user_id text not null, session text not null,
        actor text not null, turn text, action text not null, call_id text not null, made_at text not null)`,
      sql`create index origins_by_call on origins (call_id, session)`,
      sql`create index origins_by_session on origins (session)`,
      sql`create table notes (
        id bigint primary key, origin bigint not null, owner bigint not null, part_of bigint, expires_at text,
        format text not null, version bigint not null, bytes bigint not null, hash text not null,
        changed_at text not null, name text, properties text, content text not null)`,
      sql`create index notes_by_origin on notes (origin)`,
      sql`create index notes_by_name on notes (name) where name is not null`,
      sql`create index notes_by_owner on notes (owner, part_of, id)`,
      sql`create index notes_by_expiry on notes (owner, expires_at) where expires_at is not null`,
      sql`create table note_history (
        note bigint not null, version bigint not null, format text not null, bytes bigint not null,
        hash text not null, changed_at text not null, content text not null, primary key (note, version))`,
      sql`create table note_files (
        note bigint not null, version bigint not null, data ${bytes} not null, primary key (note, version))`,
      sql`create table collections (
        id bigint primary key, origin bigint not null, owner bigint not null, expires_at text,
        complete integer not null, version bigint not null, count bigint not null, bytes bigint not null,
        changed_at text not null, name text, properties text)`,
      sql`create index collections_by_origin on collections (origin)`,
      sql`create index collections_by_owner on collections (owner, expires_at)`,
      // A row is a run of notes with consecutive ids at consecutive positions, so an import needs few rows.
      sql`create table members (
        collection bigint not null, version bigint not null, position bigint not null, note bigint not null,
        run bigint not null, primary key (collection, version, position))`,
      sql`create index members_by_note on members (note)`,
    ],
  },
  {
    name: "usage and sources of notes",
    statements: () => [
      sql`alter table origins add column sources text`,
      sql`alter table notes add column sources text`,
      sql`alter table collections add column sources text`,
      sql`create table held_sources (call_id text primary key, sources text not null, held_at text not null)`,
      sql`create table infospace_use (
        scope text not null, tenant text not null, user_id text not null, session text not null,
        notes bigint not null, bytes bigint not null, row_count bigint not null,
        primary key (scope, tenant, user_id, session))`,
      sql`
        insert into infospace_use (scope, tenant, user_id, session, notes, bytes, row_count)
        select 'session', o.tenant, o.user_id, o.session, sum(p.notes), sum(p.bytes), sum(p.row_count)
        from (
          select origin, 1 as notes, bytes + length(coalesce(properties, '')) + 256 as bytes, 0 as row_count from notes
          union all
          select n.origin, 0, h.bytes, 0 from note_history h join notes n on n.id = h.note
          union all
          select origin, 1, length(coalesce(properties, '')) + 256, 0 from collections
          union all
          select c.origin, 0, 0, 1 from members m join collections c on c.id = m.collection
        ) p join origins o on o.id = p.origin
        group by o.tenant, o.user_id, o.session`,
      sql`
        insert into infospace_use (scope, tenant, user_id, session, notes, bytes, row_count)
        select 'user', tenant, user_id, '', sum(notes), sum(bytes), sum(row_count)
        from infospace_use where scope = 'session' group by tenant, user_id`,
      sql`
        insert into infospace_use (scope, tenant, user_id, session, notes, bytes, row_count)
        select 'tenant', tenant, '', '', sum(notes), sum(bytes), sum(row_count)
        from infospace_use where scope = 'session' group by tenant`,
    ],
  },
  {
    name: "calls inside others that wait",
    statements: () => [sql`alter table approvals add column parent text`],
  },
  {
    name: "running calls",
    statements: () => [
      sql`create table running_calls (
        call_id text primary key, process text not null, pid bigint not null, host text not null, since text not null)`,
    ],
  },
  {
    name: "usage of language models",
    statements: () => [
      sql`alter table usage add column tokens bigint not null default 0`,
      sql`alter table usage add column cost double precision not null default 0`,
    ],
  },
  {
    name: "trusted skills",
    statements: () => [
      sql`create table skill_pins (
        root text not null, skill text not null, digest text not null, pinned_at text not null,
        pinned_by text not null, files text not null, primary key (root, skill))`,
    ],
  },
  {
    name: "runs of methods",
    statements: () => [
      sql`alter table approvals add column method text`,
      sql`create table method_runs (
        id text primary key, key text not null, state text not null, action text not null, digest text not null,
        caller text not null, session text not null, args text not null, call_id text not null, step bigint not null,
        steps bigint not null, requests bigint not null, progress text not null, holder text, holder_pid bigint,
        holder_host text, lease_until text, approval_id text, started_at text not null, changed_at text not null,
        outcome text, reason text, result text, delivered integer not null)`,
      // A caller has at most one open run of the same call.
      sql`create unique index method_runs_open on method_runs (key) where state in ('running', 'waiting')`,
      sql`create index method_runs_by_key on method_runs (key)`,
    ],
  },
  {
    name: "sessions of actors",
    statements: () => [
      sql`alter table turns add column expires_at text`,
      sql`create table sessions (
        id text primary key, tenant text not null, user_id text not null, session text not null, actor text not null,
        title text not null, created_at text not null, changed_at text not null, message_count bigint not null,
        open_turn text, turn_key text, result text, summary text, summary_until bigint not null,
        unique (tenant, user_id, session, actor))`,
      sql`create index sessions_by_change on sessions (changed_at)`,
      // A shortened message is what a model gets; the message itself stays for people.
      sql`create table session_messages (
        session_id text not null, seq bigint not null, turn text not null, message text not null, shortened text,
        primary key (session_id, seq))`,
    ],
  },
  {
    name: "files that approvers see",
    statements: ({ bytes }) => [
      sql`alter table approvals add column files text`,
      sql`create table file_contents (digest text primary key, content ${bytes} not null)`,
      sql`create table content_use (owner text not null, digest text not null, primary key (owner, digest))`,
      sql`create index content_use_by_digest on content_use (digest)`,
    ],
  },
  {
    name: "tasks of peers",
    statements: () => [
      sql`create table peer_tasks (
        id text primary key, client text not null, context text not null, message_id text not null, state text not null,
        action text not null, args text not null, caller text not null, call_id text not null, messages text not null,
        status text, result text not null, approval_id text, inner_call integer not null, holder text, holder_pid bigint,
        holder_host text, lease_until text, version bigint not null, started_at text not null,
        changed_at text not null, unique (client, message_id))`,
      sql`create index peer_tasks_by_client on peer_tasks (client, changed_at)`,
      sql`create index peer_tasks_open on peer_tasks (changed_at) where state in ('working', 'auth_required')`,
    ],
  },
  {
    name: "memory",
    statements: ({ identity }) => [
      // A row is one version of an entry. The row without an end is the current one.
      sql`create table memory_entries (
        id ${identity}, tenant text not null, layer text not null, actor text not null, slug text not null,
        version bigint not null, name text not null, description text not null, type text not null,
        changed_at text not null, changed_by text not null, user_id text, ended_at text, ended_by text,
        forgotten integer not null, body text not null, unique (tenant, layer, actor, slug, version))`,
      sql`create unique index memory_entries_current on memory_entries (tenant, layer, actor, slug)
        where ended_at is null`,
    ],
  },
  {
    name: "rag sources",
    statements: ({ identity }) => [
      sql`create table rag_sources (
        id ${identity}, tenant text not null, name text not null, description text not null, owner text not null,
        made_from text not null, contents text not null, version bigint not null, documents bigint not null,
        chunks bigint not null, characters bigint not null, indexed_at text not null, unique (tenant, owner, name))`,
      sql`create table rag_documents (
        id ${identity}, source_id bigint not null, document text not null, title text not null, hash text not null,
        characters bigint not null, read_by text not null)`,
      sql`create index rag_documents_by_source on rag_documents (source_id)`,
      sql`create table rag_chunks (
        id ${identity}, source_id bigint not null, document_id bigint not null, mark text not null, heading text not null,
        text text not null, line_from bigint not null, line_to bigint not null, offset_from bigint not null,
        offset_to bigint not null)`,
      sql`create index rag_chunks_by_source on rag_chunks (source_id)`,
      sql`create index rag_chunks_by_document on rag_chunks (document_id)`,
    ],
  },
];

/** In one transaction, so that other processes wait. Throws `store_failed` if the store is newer than this program. */
export async function migrate(db: SqlDriver, steps: readonly Migration[] = migrations): Promise<void> {
  await db.transaction(async (tx) => {
    const version = await readSchemaVersion(tx);
    if (version > steps.length) {
      throw new QmError("store_failed", `the store has version ${version}, this program knows ${steps.length}`, {
        hint: "A newer Quartermaster has written it. Upgrade this one, or use another store.",
      });
    }
    for (const step of steps.slice(version)) {
      for (const statement of step.statements(db.dialect)) await tx.all(statement);
    }
    if (version < steps.length) await tx.all(sql`update schema_version set version = ${steps.length}`);
  });
}

async function readSchemaVersion(tx: Sql): Promise<number> {
  await tx.all(sql`create table if not exists schema_version (version integer not null)`);
  const [row] = await tx.all(sql`select version from schema_version`);
  if (row !== undefined) return Number(row.version);
  await tx.all(sql`insert into schema_version (version) values (0)`);
  return 0;
}
