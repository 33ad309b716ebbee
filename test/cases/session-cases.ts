import assert from "node:assert/strict";
import type { SessionStore, StoredSession } from "../../src/actor/session-store.ts";
import type { ModelMessage } from "../../src/core/model.ts";
import { migrate } from "../../src/store/migrations.ts";
import { createSqlSessionStore } from "../../src/store/sessions.ts";
import { type SqlDriver, sql } from "../../src/store/sql.ts";
import { createSqlTurnStore } from "../../src/store/suspended-turns.ts";
import { defineCases } from "./store-cases.ts";

const STARTED = new Date("2026-01-02T03:04:05.678Z");
const CHANGED = new Date("2026-01-02T03:05:00.000Z");
const LATER = new Date("2026-01-03T00:00:00.000Z");
const ann = { tenant: "acme", user: { id: "ann" } };

let ids = 0;
const open = (sessions: SessionStore, session = "s", actor = "clerk", owner: object = ann): Promise<StoredSession> =>
  sessions.open(owner, { id: `row-${ids++}`, session, actor, title: "a\0b" }, STARTED);
const say = (text: string): ModelMessage => ({ role: "user", text });
const finish = (turn: string, ...texts: string[]) => ({
  turn,
  messages: texts.map(say),
  at: CHANGED,
});

export const sessionStoreCases = defineCases(openSessions, {
  "opens the same session again, for its owner and actor only": async (sessions) => {
    const first = await open(sessions);

    assert.deepEqual(await open(sessions), first);

    const { id, ...facts } = first;
    const at = STARTED.toISOString();
    assert.deepEqual(facts, {
      ...{ session: "s", actor: "clerk", tenant: "acme", user: "ann", title: "a\uFFFDb" },
      ...{ createdAt: at, changedAt: at, messages: 0 },
    });
    const others = [
      await open(sessions, "s", "teller"),
      await open(sessions, "t"),
      await open(sessions, "s", "clerk", { tenant: "acme" }),
      await open(sessions, "s", "clerk", { user: { id: "ann" } }),
      await open(sessions, "s", "clerk", {}),
    ];
    assert.equal(new Set([id, ...others.map((each) => each.id)]).size, 6);
    assert.deepEqual(
      (await sessions.find(ann, "s")).map(({ actor }) => actor),
      ["clerk", "teller"],
    );
    assert.deepEqual(
      (await sessions.find(ann, "s", "teller")).map(({ id }) => id),
      [others[0]?.id],
    );
    assert.deepEqual(await sessions.find({ tenant: "other" }, "s"), []);
  },
  "returns messages as they were written, in pages": async (sessions) => {
    const { id } = await open(sessions);
    const odd = ["nul\0here", "half \ud800 pair", "__proto__", "🦑", "line\u2028separator", ""];

    assert(await sessions.claim(id, "t1", undefined, undefined));
    assert(await sessions.finish(id, finish("t1", ...odd)));

    const read = await sessions.readMessages(id, {});
    assert.deepEqual(
      read.map(({ message }) => message),
      odd.map(say),
    );
    assert.deepEqual(
      read.map(({ seq, turn }) => [seq, turn]),
      odd.map((_, at) => [at + 1, "t1"]),
    );
    assert.deepEqual(
      (await sessions.readMessages(id, { after: 2, limit: 2 })).map(({ seq }) => seq),
      [3, 4],
    );
    assert.deepEqual(await sessions.readMessages("unknown", {}), []);
    const [session] = await sessions.find(ann, "s");
    assert.deepEqual([session?.messages, session?.changedAt], [6, CHANGED.toISOString()]);
  },
  "stores more messages than one statement can": async (sessions) => {
    const { id } = await open(sessions);
    await sessions.claim(id, "t1", undefined, undefined);

    await sessions.finish(id, finish("t1", ...Array.from({ length: 1_201 }, (_, at) => `m${at}`)));

    assert.equal((await sessions.readHistory(id)).messages.at(-1)?.seq, 1_201);
  },
  "gives the session to one turn at a time": async (sessions) => {
    const { id } = await open(sessions);
    const turns = Array.from({ length: 20 }, (_, at) => `t${at}`);

    const claimed = await Promise.all(turns.map((turn) => sessions.claim(id, turn, undefined, undefined)));

    assert.equal(claimed.filter((each) => each).length, 1);
    const winner = turns[claimed.indexOf(true)] ?? "";
    assert.equal((await sessions.find(ann, "s"))[0]?.openTurn, winner);
    assert.equal(await sessions.finish(id, finish("another", "late")), false);
    assert.equal(await sessions.claim(id, "next", "another", undefined), false);
    assert(await sessions.claim(id, "next", winner, undefined));
    assert.equal(await sessions.finish(id, finish(winner, "late")), false);
    assert(await sessions.finish(id, finish("next", "one")));
    assert.equal(await sessions.finish(id, finish("next", "twice")), false);
    assert(await sessions.claim(id, "t99", undefined, undefined));
    assert(await sessions.finish(id, finish("t99", "two")));
    const history = await sessions.readHistory(id);
    assert.deepEqual(
      history.messages.map(({ seq, message }) => [seq, message]),
      [
        [1, say("one")],
        [2, say("two")],
      ],
    );
  },
  "keeps the result of a delegation until it is delivered": async (sessions) => {
    const { id } = await open(sessions);
    await sessions.claim(id, "t1", undefined, "key");
    assert.equal((await sessions.find(ann, "s"))[0]?.turnKey, "key");

    await sessions.finish(id, { ...finish("t1", "one"), result: { said: "yes" } });

    await sessions.deliver(ann, "s", "another");
    const [kept] = await sessions.find(ann, "s");
    assert.deepEqual([kept?.turnKey, kept?.result, kept?.openTurn], ["key", { said: "yes" }, undefined]);
    await sessions.deliver({}, "s", "key");
    assert.equal((await sessions.find(ann, "s"))[0]?.turnKey, "key");
    await sessions.deliver(ann, "s", "key");
    const [delivered] = await sessions.find(ann, "s");
    assert.deepEqual([delivered?.turnKey, delivered?.result], [undefined, undefined]);
    // A turn that was not delegated leaves nothing to deliver.
    await sessions.claim(id, "t2", undefined, "key");
    await sessions.finish(id, finish("t2", "two"));
    assert.equal((await sessions.find(ann, "s"))[0]?.turnKey, undefined);
  },
  "shortens messages for models only": async (sessions) => {
    const { id } = await open(sessions);
    await sessions.claim(id, "t1", undefined, undefined);
    await sessions.finish(id, finish("t1", "a", "b", "c", "d"));

    await sessions.shorten(id, { messages: [{ seq: 3, message: say("short") }], summary: { text: "sum", until: 2 } });

    const history = await sessions.readHistory(id);
    assert.deepEqual(
      [history.summary, history.messages.map(({ message }) => message)],
      ["sum", [say("short"), say("d")]],
    );
    assert.deepEqual(
      (await sessions.readMessages(id, {})).map(({ message }) => message),
      ["a", "b", "c", "d"].map(say),
    );
  },
  "lists by owner, session and actor, last changed first": async (sessions) => {
    for (const [at, name] of ["a", "b", "c"].entries()) {
      const { id } = await open(sessions, name);
      await sessions.claim(id, "t", undefined, undefined);
      await sessions.finish(id, { ...finish("t", name), at: new Date(CHANGED.getTime() + at) });
    }
    await open(sessions, "d", "teller", {});
    const names = async (query: object) => (await sessions.list(query)).map(({ session }) => session);

    assert.deepEqual(await names({}), ["c", "b", "a", "d"]);
    assert.deepEqual(await names({ tenant: "acme", user: "ann", limit: 2 }), ["c", "b"]);
    assert.deepEqual(await names({ offset: 2 }), ["a", "d"]);
    assert.deepEqual(await names({ actor: "teller" }), ["d"]);
    assert.deepEqual(await names({ session: "b" }), ["b"]);
    assert.deepEqual(await names({ tenant: "" }), ["d"]);
    assert.deepEqual(await names({ limit: -1 }), []);
    assert.equal("id" in ((await sessions.list({}))[0] ?? {}), false);
  },
  "removes a session with its messages, and old ones without an open turn": async (sessions, db) => {
    const [gone, old, busy] = [await open(sessions, "gone"), await open(sessions, "old"), await open(sessions, "busy")];
    for (const { id } of [gone, old]) {
      await sessions.claim(id, "t", undefined, undefined);
      await sessions.finish(id, finish("t", "one"));
    }
    const turn = { id: "open", tokenHash: "h", caller: { actor: "clerk", session: "busy" }, memo: "{}", at: STARTED };
    const turns = createSqlTurnStore(db);
    await turns.add({ ...turn, holder: { id: "me", pid: 1, host: "here", leaseUntil: LATER } });
    await sessions.claim(busy.id, "open", undefined, undefined);

    assert(await sessions.remove(gone.id));
    assert.equal(await sessions.remove(gone.id), false);
    assert.equal(await sessions.prune(CHANGED), 0);
    assert.equal(await sessions.prune(LATER), 1);

    assert.deepEqual(
      (await sessions.list({})).map(({ session }) => session),
      ["busy"],
    );
    assert.equal((await db.all(sql`select * from session_messages`)).length, 0);
    assert.deepEqual(
      (await sessions.list({})).map(({ openTurn, turnState }) => [openTurn, turnState]),
      [["open", "running"]],
    );
    await turns.cancelAll(CHANGED);
    assert.equal("openTurn" in ((await sessions.list({}))[0] ?? {}), false);
    assert.equal(await sessions.prune(LATER), 1);
  },
  "reports a damaged message, and lists the other sessions": async (sessions, db) => {
    const { id } = await open(sessions);
    await sessions.claim(id, "t", undefined, undefined);
    await sessions.finish(id, finish("t", "one"));

    for (const damage of ['{"cut', "7", '{"role":"odd"}']) {
      await db.all(sql`update session_messages set message = ${damage}`);
      await assert.rejects(sessions.readHistory(id), { code: "store_failed" });
    }
    await db.all(sql`update sessions set result = '7'`);
    await open(sessions, "whole");
    assert.deepEqual(
      (await sessions.list({})).map(({ session }) => session),
      ["whole"],
    );
  },
});

async function openSessions(db: SqlDriver): Promise<SessionStore> {
  await migrate(db);
  return createSqlSessionStore(db);
}
