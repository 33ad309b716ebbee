import assert from "node:assert/strict";
import { hashBytes } from "../../src/core/file-digest.ts";
import type { StartedProcess } from "../../src/mcp/hub/server-processes.ts";
import type { DefinitionPin, ManifestRecord, ServerManifest } from "../../src/mcp/manifests/manifest-store.ts";
import { createSqlApprovalStore } from "../../src/store/approvals.ts";
import { migrate } from "../../src/store/migrations.ts";
import { createSqlManifestStore, createSqlProcessStore } from "../../src/store/servers.ts";
import type { SqlDriver } from "../../src/store/sql.ts";
import { defineCases } from "./store-cases.ts";

const at = new Date("2026-01-02T03:04:05.678Z");
const later = new Date("2026-01-02T04:00:00.000Z");

export const manifestStoreCases = defineCases(openManifests, {
  "returns the record of a server as it was written": async (manifests) => {
    const odd = ["nul\0here", "half \ud800 pair", "__proto__", "🦑", "line\u2028separator", "\u{e0041}", ""];
    const pins = odd.map((name, index) => pin(`h${index}`, name, { reasons: [name], by: name, state: "rejected" }));
    const offer = { ...manifest("f").offer, instructions: odd.join() };

    const written = await manifests.change("s", () => ({
      manifest: { ...manifest("f"), offer },
      put: pins,
      drop: [],
    }));

    const read = await manifests.read("s");
    assert.deepEqual(sorted(read), sorted(written));
    assert.deepEqual(sorted(read).pins, pins);
    assert.deepEqual(read?.manifest, { ...manifest("f"), offer });
    assert.deepEqual([...(await manifests.all())], [["s", read]]);
    assert.equal(await manifests.read("t"), undefined);
  },
  "passes the record to a change, and writes its puts and drops": async (manifests) => {
    await manifests.change("s", () => ({ manifest: manifest("f"), put: [pin("a"), pin("b"), pin("c")], drop: [] }));
    const before = await manifests.read("s");
    const seen: (ManifestRecord | undefined)[] = [];

    const after = await manifests.change("s", (record) => {
      seen.push(record);
      return { put: [pin("b", "b", { state: "withheld", reasons: ["new"] }), pin("d")], drop: ["a", "unknown"] };
    });

    assert.deepEqual(seen, [before]);
    assert.deepEqual(sorted(await manifests.read("s")), sorted(after));
    assert.deepEqual(
      sorted(after).pins.map(({ hash, state }) => [hash, state]),
      [
        ["b", "withheld"],
        ["c", "accepted"],
        ["d", "accepted"],
      ],
    );
    assert.deepEqual(after?.manifest, manifest("f"));
  },
  "keeps the files of accepted skills, and those of no others": async (manifests, db) => {
    const approvals = createSqlApprovalStore(db);
    const [text, other] = [new Uint8Array([97]), new Uint8Array([98])];
    const [kept, unused] = [hashBytes(text), hashBytes(other)];
    await manifests.addContents(
      new Map([
        ["SKILL.md", text],
        ["b.md", other],
      ]),
    );
    const resources = [{ uri: "skill://a/SKILL.md", digest: `sha256:${kept}`, size: 1 }];
    const skill = { uri: "skill://a/SKILL.md", frontmatter: { name: "a" }, resources };
    const definition = { name: "skill/a", inputSchema: { type: "object" }, skill };
    const accepted = pin("a", "skill/a", { definition });

    await manifests.change("s", () => ({ manifest: manifest("f"), put: [accepted], drop: [] }));
    await approvals.prune(at);
    assert.deepEqual([...((await manifests.getContent(kept)) ?? [])], [97]);
    assert.equal(await manifests.getContent(unused), undefined);

    await manifests.change("s", () => ({ put: [{ ...accepted, state: "rejected" }], drop: [] }));
    await approvals.prune(at);
    assert.equal(await manifests.getContent(kept), undefined);

    for (const end of [() => manifests.change("s", () => ({ put: [], drop: ["a"] })), () => manifests.forget("s")]) {
      await manifests.addContents(new Map([["SKILL.md", text]]));
      await manifests.change("s", () => ({ put: [accepted], drop: [] }));
      await end();
      await approvals.prune(at);
      assert.equal(await manifests.getContent(kept), undefined);
    }
  },
  "writes nothing without a change, and refuses a first record without a manifest": async (manifests) => {
    const record = await manifests.change("s", () => ({ manifest: manifest("f"), put: [], drop: [] }));

    assert.deepEqual(await manifests.change("s", () => undefined), record);
    assert.deepEqual(await manifests.revisions(), new Map([["s", record?.revision]]));
    assert.equal(await manifests.change("t", () => undefined), undefined);
    await assert.rejects(
      manifests.change("t", () => ({ put: [pin("a")], drop: [] })),
      /without a manifest/,
    );
    assert.equal(await manifests.read("t"), undefined);
  },
  "changes nothing if the decision throws": async (manifests) => {
    const record = await manifests.change("s", () => ({ manifest: manifest("f"), put: [pin("a")], drop: [] }));

    await assert.rejects(
      manifests.change("s", () => {
        throw new Error("not like this");
      }),
      /not like this/,
    );

    assert.deepEqual(await manifests.read("s"), record);
  },
  "serializes concurrent changes of a record": async (manifests) => {
    const firsts: number[] = [];

    await Promise.all(
      Array.from({ length: 10 }, (_, index) =>
        manifests.change("s", (record) => {
          if (record === undefined) firsts.push(index);
          return { manifest: manifest(`f${index}`), put: [pin(`h${index}`)], drop: [] };
        }),
      ),
    );

    assert.equal(firsts.length, 1);
    assert.equal((await manifests.read("s"))?.pins.length, 10);
  },
  "gives every change a new revision, also after a server was forgotten": async (manifests) => {
    const revisions: (number | undefined)[] = [];
    const change = async (server: string) => {
      const made = await manifests.change(server, () => ({ manifest: manifest("f"), put: [pin("a")], drop: [] }));
      revisions.push(made?.revision);
    };

    for (const server of ["s", "t", "s"]) await change(server);
    assert.equal(await manifests.forget("s"), true);
    assert.equal(await manifests.forget("s"), false);
    assert.deepEqual([...(await manifests.revisions()).keys()], ["t"]);
    await change("s");

    assert.equal(new Set(revisions).size, 4);
    assert.deepEqual(
      revisions,
      revisions.toSorted((a, b) => Number(a) - Number(b)),
    );
    assert.equal((await manifests.revisions()).get("s"), revisions.at(-1));
  },
  "forgets one server only, and stores more pins than fit into one statement": async (manifests) => {
    const pins = Array.from({ length: 5_000 }, (_, index) => pin(`h${index}`));
    await manifests.change("s", () => ({ manifest: manifest("f"), put: pins, drop: [] }));
    await manifests.change("t", () => ({ manifest: manifest("g"), put: [pin("h0")], drop: [] }));

    assert.equal((await manifests.read("s"))?.pins.length, pins.length);
    await manifests.change("s", () => ({ put: [], drop: pins.slice(1).map(({ hash }) => hash) }));
    assert.deepEqual((await manifests.read("s"))?.pins, [pin("h0")]);
    await manifests.forget("s");

    assert.equal(await manifests.read("s"), undefined);
    assert.deepEqual((await manifests.all()).get("t")?.pins, [pin("h0")]);
    await manifests.change("s", () => ({ manifest: manifest("f"), put: [], drop: [] }));
    assert.deepEqual((await manifests.read("s"))?.pins, []);
  },
});

export const processStoreCases = defineCases(async (db) => db, {
  "stores processes by pid, host and start until they are removed": async (db) => {
    await migrate(db);
    const processes = createSqlProcessStore(db);
    const first: StartedProcess = { server: "s", pid: 7, startedAt: "1", ownerPid: 70, host: "here" };
    const others = [
      { ...first, startedAt: "2" },
      { ...first, pid: 8, server: "t" },
      { ...first, host: "there" },
    ];

    for (const started of [first, ...others, first]) await processes.add(started);
    assert.deepEqual(await processes.all(), [first, ...others]);
    await processes.remove(first);
    await processes.remove({ pid: 7, host: "here", startedAt: "3" });

    assert.deepEqual(await processes.all(), others);
  },
  "updates the owner of a process": async (db) => {
    await migrate(db);
    const processes = createSqlProcessStore(db);
    const started: StartedProcess = { server: "s", pid: 7, startedAt: "1", ownerPid: 70, host: "here" };

    await processes.add(started);
    await processes.add({ ...started, ownerPid: 71 });

    assert.deepEqual(await processes.all(), [{ ...started, ownerPid: 71 }]);
  },
});

function manifest(fingerprint: string): ServerManifest {
  const nothing = { serverInfo: {}, capabilities: {}, tools: [], resources: [], resourceTemplates: [], prompts: [] };
  return { fingerprint, learnedAt: later, offer: { protocolVersion: "2025-11-25", era: "legacy", ...nothing } };
}

function pin(hash: string, name = hash, rest: Partial<DefinitionPin> = {}): DefinitionPin {
  const definition = { name, inputSchema: { type: "object" } };
  return { hash, definition, state: "accepted", reasons: [], marks: ["links"], seenAt: at, ...rest };
}

function sorted(record: ManifestRecord | undefined): ManifestRecord {
  assert(record !== undefined);
  return { ...record, pins: record.pins.toSorted((a, b) => (a.hash < b.hash ? -1 : 1)) };
}

async function openManifests(db: SqlDriver) {
  await migrate(db);
  return createSqlManifestStore(db);
}
