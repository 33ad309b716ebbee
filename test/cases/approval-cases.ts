import assert from "node:assert/strict";
import type { ApprovalStore, NewApproval } from "../../src/approval/approval-store.ts";
import { QmError } from "../../src/core/errors.ts";
import { digestFiles, hashBytes } from "../../src/core/file-digest.ts";
import type { JsonObject } from "../../src/core/json.ts";
import { sql } from "../../src/store/sql.ts";
import {
  AFTER,
  ANSWERED,
  approved,
  denied,
  EXPIRES,
  executor,
  expired,
  LATER,
  openApprovals,
  outcome,
  places,
  put,
  question,
  requireApproval,
} from "./approval-fixtures.ts";
import { defineCases } from "./store-cases.ts";

const MAX_OPEN = 20;

export const approvalStoreCases = defineCases(openApprovals, {
  "returns an approval as it was stored": async (store) => {
    const odd = ["nul\0here", "half \ud800 pair", "__proto__", "🦑", "line\u2028separator", "", "'; drop table --"];
    for (const [index, text] of odd.entries()) {
      const args: JsonObject = JSON.parse(`{"__proto__": {"polluted": 1}, "constructor": ${JSON.stringify(text)}}`);
      const caller = { actor: text, session: text, turn: text, tenant: text, person: text, user: { id: text, args } };
      const asked = question({ id: `a${index}`, binding: `b${index}`, args, caller, preview: "rm -rf\n🦑" });

      const { approval, isNew } = await store.request(asked, MAX_OPEN);

      assert(isNew);
      assert.deepEqual(approval, { ...asked, state: "pending", delivered: false });
      assert.deepEqual(await store.get(asked.id), approval);
      assert.deepEqual(await store.list({ session: text, actor: text, turn: text, tenant: text, user: text }), [
        approval,
      ]);
      assert(Object.hasOwn(approval.args, "__proto__"));
      const given = { ...denied, by: text, reason: text };
      assert(await store.answer(asked.id, given, []));
      assert.deepEqual((await requireApproval(store, asked.id)).answer, given);
    }
    assert.equal(Object.hasOwn(Object.prototype, "polluted"), false);
  },
  "replaces characters that a text column cannot hold": async (store) => {
    const odd = { callId: "c\0", via: "v\ud800", level: "l\0", rule: "r\0", reason: "why\0", preview: "p\udc00" };

    const { approval } = await store.request(question({ id: "a", ...odd }), MAX_OPEN);

    const marked = { callId: "c�", via: "v�", level: "l�", rule: "r�", reason: "why�", preview: "p�" };
    assert.deepEqual(approval, { ...question({ id: "a", ...marked }), state: "pending", delivered: false });
  },
  "returns the open request for the same binding, and creates one for another binding": async (store) => {
    for (const place of places) {
      const joined = await put(store, { id: `first ${place}`, binding: place }, place);
      const again = await store.request(question({ id: `again ${place}`, binding: place }), MAX_OPEN);

      assert.deepEqual(again, { approval: await requireApproval(store, joined.id), isNew: false }, place);
      assert.equal(await store.get(`again ${place}`), undefined);
    }
    assert((await store.request(question({ id: "b", binding: "another" }), MAX_OPEN)).isNew);
  },
  "creates a new request after the outcome was delivered": async (store) => {
    for (const place of ["denied", "expired", "done", "interrupted"] as const) {
      await put(store, { id: `first ${place}`, binding: place }, place);
      assert(await store.deliver(`first ${place}`));
      assert.equal(await store.deliver(`first ${place}`), false);

      const again = await store.request(question({ id: `again ${place}`, binding: place }), MAX_OPEN);

      assert.deepEqual([again.isNew, again.approval.id, again.approval.state], [true, `again ${place}`, "pending"]);
    }
  },
  "does not join a request whose time is up": async (store) => {
    for (const place of ["pending", "approved"] as const) {
      await put(store, { id: `first ${place}`, binding: place }, place);

      const atTheEnd = question({ id: `second ${place}`, binding: place, requestedAt: EXPIRES });
      assert.equal((await store.request(atTheEnd, MAX_OPEN)).approval.id, `first ${place}`);
      const after = question({ id: `third ${place}`, binding: place, requestedAt: AFTER, expiresAt: "2027" });
      assert.equal((await store.request(after, MAX_OPEN)).isNew, true);
      const newest = question({ id: `fourth ${place}`, binding: place, requestedAt: AFTER });
      assert.equal((await store.request(newest, MAX_OPEN)).approval.id, `third ${place}`);
      await store.expire(`first ${place}`, expired);
      assert.equal((await store.request(newest, MAX_OPEN)).approval.id, `third ${place}`);
    }
    // A claimed call runs, however long it takes.
    await put(store, { id: "claimed", binding: "claimed" }, "claimed");
    const later = question({ id: "later", binding: "claimed", requestedAt: "2027-01-01T00:00:00.000Z" });
    assert.equal((await store.request(later, MAX_OPEN)).approval.id, "claimed");
  },
  "accepts an answer until the request expires": async (store) => {
    for (const answer of [approved, denied]) {
      const [id, late] = [`in time ${answer.decision}`, `late ${answer.decision}`];
      for (const each of [id, late]) await put(store, { id: each, binding: each });

      assert.equal(await store.answer(late, { ...answer, at: AFTER }, []), false);
      assert.equal((await requireApproval(store, late)).state, "pending");
      assert.equal(await store.answer(id, { ...answer, at: EXPIRES }, []), true);
    }
  },
  "refuses more open requests of a session than allowed": async (store) => {
    const ask = (id: string, rest: Partial<NewApproval> = {}) =>
      store.request(question({ id, binding: id, ...rest }), 3);
    for (const place of ["pending", "approved", "claimed"] as const) await put(store, { id: place }, place);

    await assert.rejects(ask("fourth"), (thrown) => {
      assert(thrown instanceof QmError && thrown.code === "overloaded" && thrown.hint !== undefined);
      return true;
    });
    assert.equal(await store.get("fourth"), undefined);
    assert.equal((await ask("again", { binding: "approved" })).isNew, false);
    assert((await ask("elsewhere", { caller: { actor: "main", session: "another" } })).isNew);
    assert(await store.finish("claimed", "me", { at: LATER, outcome: outcome() }));
    assert((await ask("fourth")).isNew);
    await assert.rejects(ask("fifth"), { code: "overloaded" });
    // Requests whose time is up do not count.
    assert((await ask("next day", { requestedAt: AFTER })).isNew);
  },
  "creates one request for concurrent equal calls": async (store, db) => {
    const all = await Promise.all(
      Array.from({ length: 20 }, (_, index) => store.request(question({ id: `a${index}`, binding: "b" }), MAX_OPEN)),
    );

    assert.equal(all.filter(({ isNew }) => isNew).length, 1);
    assert.equal(new Set(all.map(({ approval }) => approval.id)).size, 1);
    assert.equal((await store.list({})).length, 1);
    assert.deepEqual(await db.all(sql`select name from locks`), []);
  },
  "lets one of many executors claim, and another only after a release": async (store) => {
    await put(store, { id: "a" }, "approved");
    const claimAll = async () => {
      const names = Array.from({ length: 20 }, (_, index) => `e${index}`);
      const won = await Promise.all(names.map((name) => store.claim("a", executor(name))));
      return names.filter((_, index) => won[index]);
    };

    const [first = "", ...others] = await claimAll();
    assert.deepEqual(others, []);
    assert.equal((await requireApproval(store, "a")).executor, first);
    assert(await store.release("a", first));
    assert.equal(await store.begin("a", first, LATER), false);
    assert.equal((await claimAll()).length, 1);
  },
  "lets only the interrupted executor finish afterwards": async (store) => {
    await put(store, { id: "a" }, "interrupted");
    const end = (name: string) => store.finish("a", name, { at: LATER, outcome: outcome(name) });

    assert.equal(await end("other"), false);
    assert.equal(await end("me"), true);
    assert.equal(await end("me"), false);

    assert.deepEqual((await requireApproval(store, "a")).outcome, outcome("me"));
    assert.deepEqual(await ids(store), ["a"]);
  },
  "lists claimed approvals, and ended ones that the ledger does not have yet": async (store) => {
    for (const place of places) await put(store, { id: place, binding: place }, place);
    await put(store, { id: "theirs", binding: "theirs" }, "approved");
    await store.claim("theirs", executor("other"));

    await store.renew("me", LATER);

    const claims = new Map((await store.listClaimed()).map(({ approval, executor: who }) => [approval.id, who]));
    assert.deepEqual([...claims.keys()], ["begun", "claimed", "done", "interrupted", "theirs"]);
    assert.deepEqual(claims.get("claimed"), { ...executor("me"), leaseUntil: LATER });
    assert.deepEqual(claims.get("theirs"), executor("other"));
    const done = (await store.listClaimed()).find(({ approval }) => approval.id === "done");
    assert.deepEqual(done?.approval, await requireApproval(store, "done"));
    for (const place of places) await store.markRecorded(place);
    assert.deepEqual(await ids(store), ["begun", "claimed", "theirs"]);
    assert(await store.finish("interrupted", "me", { at: LATER, outcome: outcome() }));
    assert.deepEqual(await ids(store), ["begun", "claimed", "interrupted", "theirs"]);
  },
  "lets one of many processes take over an unrecorded outcome": async (store) => {
    for (const place of places) await put(store, { id: place, binding: place }, place);
    const takers = Array.from({ length: 20 }, (_, index) => ({ ...executor(`e${index}`), pid: 1000 + index }));
    const taken = async (id: string) =>
      (await Promise.all(takers.map((taker) => store.takeOver(id, executor("me"), taker)))).filter(Boolean).length;

    const wins = await Promise.all(places.map(async (place) => [place, await taken(place)] as const));

    const won = wins.filter(([, count]) => count > 0);
    assert.deepEqual(won.toSorted(), [
      ["done", 1],
      ["interrupted", 1],
    ]);
    const [next] = (await store.listClaimed()).filter(({ approval }) => approval.id === "done");
    assert(next !== undefined);
    assert.equal(next.executor.id, "me");
    assert.equal(await store.takeOver("done", next.executor, { ...executor("late"), pid: 99 }), true);
    assert.equal(await store.takeOver("done", next.executor, { ...executor("later"), pid: 98 }), false);
    await store.markRecorded("interrupted");
    const [left] = (await store.listClaimed()).filter(({ approval }) => approval.id === "interrupted");
    assert.equal(left, undefined);
  },
  "keeps the files of a question, once for each content, until its approvals are pruned": async (store) => {
    const [here, there] = [new Uint8Array([0, 255, 97]), new Uint8Array(0)];
    const listed = digestFiles(
      new Map([
        ["a b.md", here],
        ["b/🦑", there],
      ]),
    );
    const files = new Map([
      ["a b.md", here],
      ["b/🦑", there],
      ["again", here],
    ]);
    const { approval } = await store.request(question({ id: "a", binding: "a", files: listed }), MAX_OPEN, files);
    await store.request(question({ id: "b", binding: "b" }), MAX_OPEN, new Map([["x", here]]));

    assert.deepEqual(approval.files, listed);
    assert.deepEqual(
      (await store.list({})).map(({ files }) => files),
      [listed, undefined],
    );
    assert.deepEqual(Uint8Array.from((await store.getContent(hashBytes(here))) ?? []), here);
    assert.deepEqual((await store.getContent(hashBytes(there)))?.length, 0);
    assert.equal(await store.getContent("unknown"), undefined);
    assert(await store.answer("a", denied, []));
    assert.equal(await store.prune(new Date(AFTER)), 1);
    assert.equal(await store.getContent(hashBytes(there)), undefined);
    assert.deepEqual(Uint8Array.from((await store.getContent(hashBytes(here))) ?? []), here);
    assert(await store.answer("b", denied, []));
    assert.equal(await store.prune(new Date(AFTER)), 1);
    assert.equal(await store.getContent(hashBytes(here)), undefined);
  },
  "prunes old ended approvals, but no open or unrecorded ones": async (store) => {
    for (const place of places) await put(store, { id: place, binding: place }, place);
    await put(store, { id: "unrecorded", binding: "unrecorded" }, "done");
    for (const place of ["done", "interrupted"]) await store.markRecorded(place);

    assert.equal(await store.prune(new Date(ANSWERED)), 0);
    assert.equal(await store.prune(new Date(AFTER)), 1);
    assert.equal(await store.get("denied"), undefined);
    assert.equal(await store.prune(new Date("2027-01-01T00:00:00.000Z")), 3);

    const left = (await store.list({})).map(({ id }) => id);
    assert.deepEqual(left.toSorted(), ["approved", "begun", "claimed", "pending", "unrecorded"]);
  },
  "lists by state, session, turn, actor, tenant, user and action, and by all of them together": async (store) => {
    const caller = { actor: "main", session: "s", turn: "t", tenant: "acme", user: { id: "eve" } };
    await put(store, { id: "a", binding: "a", caller }, "approved");
    await put(store, { id: "b", binding: "b", caller: { ...caller, session: "other" }, action: "web__fetch" });
    await put(
      store,
      { id: "c", binding: "c", caller: { actor: "side", session: "s", turn: "u", tenant: "b", user: { id: "ada" } } },
      "denied",
    );
    const found = async (query: Parameters<ApprovalStore["list"]>[0]) =>
      (await store.list(query)).map(({ id }) => id).join("");

    assert.equal(await found({}), "abc");
    assert.equal(await found({ state: "pending" }), "b");
    assert.equal(await found({ state: ["approved", "denied"] }), "ac");
    assert.equal(await found({ state: [] }), "");
    assert.equal(await found({ session: "s" }), "ac");
    assert.equal(await found({ turn: "t" }), "ab");
    assert.equal(await found({ actor: "side" }), "c");
    assert.equal(await found({ tenant: "acme" }), "ab");
    assert.equal(await found({ user: "eve" }), "ab");
    assert.equal(await found({ action: "web__fetch" }), "b");
    assert.equal(await found({ state: "approved", ...caller, user: "eve", action: "file__write", limit: 5 }), "a");
    assert.equal(await found({ state: "pending", session: "s" }), "");
  },
  "lists page by page, oldest first, without the outcomes": async (store) => {
    const seconds = [3, 1, 2, 1, 1];
    for (const [index, second] of seconds.entries()) {
      const requestedAt = `2026-01-02T03:00:0${second}.000Z`;
      await put(store, { id: `a${index}`, binding: `b${index}`, requestedAt }, "done");
    }
    const page = async (after?: string, limit?: number) => {
      const query = { ...(after === undefined ? {} : { after }), ...(limit === undefined ? {} : { limit }) };
      return (await store.list(query)).map(({ id }) => id);
    };

    assert.deepEqual(await page(), ["a1", "a3", "a4", "a2", "a0"]);
    assert.deepEqual(await page(undefined, 2), ["a1", "a3"]);
    assert.deepEqual(await page("a3", 2), ["a4", "a2"]);
    assert.deepEqual(await page("a2", 2), ["a0"]);
    assert.deepEqual(await page("a0"), []);
    assert.deepEqual(await page(undefined, 0), []);
    assert.deepEqual(await page(undefined, -1), []);
    await assert.rejects(store.list({ after: "gone" }), { code: "not_found" });
    for (const approval of await store.list({}))
      assert.deepEqual(["outcome" in approval, approval.status], [false, "done"]);
  },
  "lists a hundred by default, and stores an outcome of megabytes": async (store) => {
    for (let index = 0; index < 101; index++) await put(store, { id: `a${index}`, binding: `b${index}` }, "denied");
    await put(store, { id: "long", binding: "long" }, "begun");
    const long = outcome("🦑".repeat(1_000_000));

    assert(await store.finish("long", "me", { at: LATER, outcome: long }));

    assert.deepEqual((await requireApproval(store, "long")).outcome, long);
    assert.equal((await store.list({})).length, 100);
  },
  "refuses an outcome that is not JSON, and changes nothing": async (store) => {
    await put(store, { id: "a" }, "begun");

    await assert.rejects(store.finish("a", "me", { at: LATER, outcome: outcome(1n) }), TypeError);

    assert.equal((await requireApproval(store, "a")).state, "executing");
  },
  "reports a damaged row, and lists the others": async (store, db) => {
    const damage = {
      args: sql`args = '{"cut'`,
      caller: sql`caller = '7'`,
      answer: sql`answer = ''`,
      outcome: sql`outcome = 'null'`,
      state: sql`state = 'odd'`,
      status: sql`status = 'odd'`,
    };
    for (const [column, change] of Object.entries(damage)) {
      await put(store, { id: column, binding: column }, "done");
      await db.all(sql`update approvals set ${change} where id = ${column}`);

      await assert.rejects(store.get(column), { code: "store_failed", message: new RegExp(`${column}.*damaged`) });
    }
    await put(store, { id: "whole", binding: "whole" }, "done");

    assert.deepEqual(
      (await store.list({})).map(({ id }) => id),
      ["outcome", "whole"],
    );
    assert.deepEqual(await ids(store), ["whole"]);
  },
});

async function ids(store: ApprovalStore): Promise<readonly string[]> {
  return (await store.listClaimed()).map(({ approval }) => approval.id);
}
