import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "@photostructure/sqlite";
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  atTerminal,
  cleanUp,
  createTestFolder,
  endings,
  eventTypes,
  longCall,
  longCallFolder,
  plainEnvironment,
  qm,
  qmCommand,
  start,
  testWorkspace,
} from "../src/cli/testing.ts";
import { isRecord } from "../src/core/json.ts";

const ESCAPE = "\u001B";

afterEach(cleanUp);

describe("exit codes", () => {
  const cases: readonly [string, number][] = [
    ["--version", 0],
    ["--help", 0],
    ["help invoke", 0],
    ["help events verify", 0],
    ["help nope", 2],
    ["list", 0],
    ["list file", 0],
    ["list --filter zzz", 0],
    ["list nowhere", 4],
    ["list --actor nobady", 2],
    ["list --limit none", 2],
    ["list --fliter x", 2],
    ["list --config nowhere.yaml", 2],
    ["lst", 2],
    ["describe file__read", 0],
    ["describe file__raed", 4],
    ["describe", 2],
    [`invoke file__read {"path":"a.txt"}`, 0],
    [`invoke file__read {"path":"b.txt"}`, 1],
    [`invoke file__read {"wrong":1}`, 2],
    ["invoke file__read {wrong", 2],
    ["invoke file__read --timeout soon", 2],
    [`invoke file__delete {"path":"a.txt"}`, 3],
    [`invoke file__edit {"path":"a.txt","old_string":"hello","new_string":"x"}`, 3],
    ["invoke file__raed {}", 4],
    [`invoke file__write {"path":"b","content":""} --actor reader`, 4],
    [`invoke file__read {"path":"a.txt"} --actor nobady`, 2],
    ["explain file__delete", 0],
    ["explain file__raed", 4],
    ["events", 0],
    ["events --type zzz", 0],
    ["events --limit 0", 2],
    ["events nonsense", 2],
    ["events verify", 0],
    ["events verify --session nosuch", 1],
    ["events verify --against nowhere.json", 2],
    ["doctor", 0],
    ["doctor --config nowhere.yaml", 1],
    ["init", 1],
    ["init --force", 0],
    ["completion bash", 0],
    ["completion tcsh", 2],
    ["complete -- li", 0],
    ["complete -- --config nowhere.yaml invoke f", 0],
  ];

  test.each(cases)("qm %s: %i", async (line, code) => {
    const cwd = await testWorkspace();

    const ran = await qm(cwd, line.split(" "));

    expect(ran.code, ran.out + ran.err).toBe(code);
    expect(ran.out + ran.err).not.toMatch(/\n\s+at .*:\d+/);
  });

  test.each(cases.filter(([line, code]) => code !== 0 || !/^(--|help)/.test(line)))(
    "qm %s --json prints one document",
    async (line, code) => {
      const cwd = await testWorkspace();
      // Words after -- are not options.
      const ran = await qm(cwd, ["--json", ...line.split(" ")]);

      const answer: unknown = JSON.parse(ran.out);
      expect(ran.code).toBe(code);
      expect(ran.out.trimEnd()).not.toContain("\n");
      const waits = isRecord(answer) && answer.status === "waiting";
      const isAnswer = /^(explain|doctor)/.test(line) || code === 0 || waits;
      if (!isAnswer) expect(answer).toMatchObject({ error: { code: expect.any(String), error: expect.any(String) } });
    },
  );
});

describe("list", () => {
  test("shows the caller's actions, fitted to the terminal width", async () => {
    const cwd = await testWorkspace();

    const wide = await qm(cwd, ["list", "--actor", "reader"]);
    const narrow = await qm(cwd, ["list", "--no-color"], { columns: 40 });

    expect(wide.out).toMatchInlineSnapshot(`
      "action      effect  what it does
      file__list  read    List the entries of a folder with their sizes.
      file__read  read    Read a text file, whole or some of its lines, or look at an image.
      "
    `);
    for (const line of narrow.out.split("\n")) expect(line.length).toBeLessThanOrEqual(40);
  });

  test("shows one page, or all", async () => {
    const cwd = await createTestFolder({
      "quartermaster.yaml":
        "providers: { file: { read_only: false } }\nmcp: { install: false }\ninfospace: { enabled: false }",
    });

    const page = await qm(cwd, ["list", "--limit", "2", "--offset", "1"]);
    const json = JSON.parse((await qm(cwd, ["list", "--limit", "3", "--json"])).out);
    const all = JSON.parse((await qm(cwd, ["list", "--all", "--json"])).out);

    expect(page.out).toContain("2 to 3 of 10. More: --offset 3, or --all.");
    expect(json).toMatchObject({ total: 10, next_offset: 3 });
    expect(json.items).toHaveLength(3);
    expect(all.items).toHaveLength(10);
    expect(all.next_offset).toBeUndefined();
  });

  test("has a message for an empty list", async () => {
    const cwd = await testWorkspace();

    const filtered = await qm(cwd, ["list", "--filter", "zzz"]);
    const none = await qm(cwd, ["list", "tool"]);
    const notes = await qm(cwd, ["list", "note"]);
    const empty = await qm(cwd, ["list", "--actor", "nobody"]);

    expect(filtered.out).toMatch(/^No action matches\.\n.*Try a shorter filter/);
    expect(none).toMatchObject({ code: 0, out: expect.stringMatching(/^No action matches\.\ntool has no action/) });
    expect(notes.out).toMatch(/^No action matches\.\n.*qm notes list/);
    expect(empty.out).toMatch(/^No action matches\.\n.*qm doctor.*qm explain/);
  });

  test("tells the new name of a renamed category", async () => {
    const cwd = await testWorkspace();

    const renamed = await qm(cwd, ["list", "fs"]);
    const unknown = await qm(cwd, ["list", "zzz"]);

    expect(renamed.code).toBe(4);
    expect(renamed.err).toContain("fs is now file");
    expect(unknown.err).toContain("`qm list` without a category");
  });
});

describe("search", () => {
  test("shows the first sentence and the required arguments of each hit, uncut", async () => {
    const cwd = await testWorkspace();

    const { out } = await qm(cwd, ["search", "read", "a", "text", "file"], { columns: 40 });

    expect(out).toMatch(
      /^\d\.\d\d {2}file__read\(path: string, \+\d\)\n {6}Read a text file, whole or some of its lines, or look at an image\.\n/,
    );
    expect(out.split("\n").filter((line) => /^\d/.test(line)).length).toBeLessThanOrEqual(5);
  });
});

describe("invoke", () => {
  test("works in an empty folder without configuration", async () => {
    const cwd = await createTestFolder();
    await writeFile(join(cwd, "README.md"), "# Hello");

    const ran = await qm(cwd, ["invoke", "file__read", '{"path":"README.md"}']);

    expect(ran.code).toBe(0);
    expect(JSON.parse(ran.out)).toMatchObject({ path: "README.md", content: "# Hello" });
    expect(ran.err).toBe("");
  });

  test("reads its arguments from stdin, from a file and from --arg", async () => {
    const cwd = await createTestFolder({ "a.txt": "x\ny\n", "args.json": '{"path":"a.txt"}' });
    async function* stdin() {
      yield Buffer.from('{"path":');
      yield '"a.txt"}';
    }

    const answers = [
      await qm(cwd, ["invoke", "file__read", "-"], { stdin: stdin() }),
      await qm(cwd, ["invoke", "file__read", "@args.json"]),
      await qm(cwd, ["invoke", "file__read", "--arg", "path=a.txt", "--arg", "limit=1"]),
    ];

    expect(answers.map(({ out }) => JSON.parse(out).content)).toEqual(["x\ny\n", "x\ny\n", "x\n"]);
  });

  test("prints an error and the next step to stderr", async () => {
    const cwd = await testWorkspace();

    const unknown = await qm(cwd, ["invoke", "file__raed", "{}"]);
    const wrong = await qm(cwd, ["invoke", "file__read", "{}"]);
    const refused = await qm(cwd, ["invoke", "file__delete", '{"path":"a.txt"}']);

    expect(unknown.err).toContain("Did you mean: file__read");
    expect(unknown.err).toContain("`qm list`");
    expect(wrong.err).toContain(`For example: qm invoke file__read '{"path":"README.md"}'`);
    expect(refused.err).toContain("Nothing is deleted here.");
    expect(refused.err).toMatch(/^ {4}It was not run\. `qm events --call [\w-]{36}` shows which rule denied it\.$/m);
    expect(unknown.out + wrong.out + refused.out).toBe("");
    expect(existsSync(join(cwd, "a.txt"))).toBe(true);
  });

  test("names the rule that refused the call, also a rule about arguments", async () => {
    const rule = `{ name: no-secrets, rule: "args.path == 'secret.txt'", effect: deny }`;
    const cwd = await createTestFolder({ "quartermaster.yaml": `policy: { rules: [${rule}] }` });

    const refused = await qm(cwd, ["invoke", "file__read", '{"path":"secret.txt"}']);
    const [, command = ""] = /`qm ([^`]*)`/.exec(refused.err) ?? [];

    expect((await qm(cwd, command.split(" "))).out).toMatch(/call\.decided +file__read +deny, tag-rules, no-secrets$/m);
    const explained = await qm(cwd, ["explain", "file__read"]);
    expect(explained.out).toContain("No layer objects. Each call is still checked against rules about arguments");
  });

  test("records the caller and the surface", async () => {
    const cwd = await testWorkspace();

    const caller = ["--actor", "reader", "--session", "s1", "--tenant", "acme", "--user", "ann"];
    await qm(cwd, [...caller, "invoke", "file__read", '{"path":"a.txt"}']);
    const { out } = await qm(cwd, ["events", "--json", "--session", "s1", "--type", "call.received"]);

    expect(JSON.parse(out).events).toMatchObject([
      { actor: "reader", session: "s1", tenant: "acme", data: { via: "cli", asked: "file__read" } },
    ]);
  });

  test("reports a call that times out", async () => {
    const cwd = await longCallFolder();

    const ran = await qm(cwd, [...longCall, "--timeout", "50ms"]);

    expect(ran.code).toBe(1);
    expect(ran.err).toContain("did not end within 50 ms");
    expect(await endings(cwd)).toMatchObject([{ status: "failed", code: "timed_out" }]);
  });

  test("shows progress on a terminal only", async () => {
    const cwd = await longCallFolder();

    const [shown, piped] = [
      await qm(cwd, [...longCall, "--timeout", "1500ms"], { columns: 80 }),
      await qm(cwd, [...longCall, "--timeout", "1500ms"]),
    ];

    expect(shown.err).toContain("file__grep has been running for 1 s. Ctrl-C cancels it.");
    expect(piped.err).not.toContain("running for");
  });

  test("exits with 130 on an interrupt", async () => {
    const cwd = await longCallFolder();
    const interrupt = new AbortController();

    const running = qm(cwd, [...longCall, "--json"], { signal: interrupt.signal });
    await vi.waitFor(async () => expect(await eventTypes(cwd)).toContain("call.decided"), 10_000);
    interrupt.abort();

    const ran = await running;
    expect(ran.code).toBe(130);
    expect(JSON.parse(ran.out)).toMatchObject({ status: "failed", error: { code: "cancelled" } });
  });
});

test("describe shows the arguments and an example call", async () => {
  const cwd = await createTestFolder();

  const { out } = await qm(cwd, ["describe", "file__read"]);

  expect(out).toContain("path  string, required");
  expect(out).toContain("limit  integer");
  expect(out).toContain(`qm invoke file__read '{"path":"README.md"}'`);
});

test("explain names the layer, the rule and the change to make", async () => {
  const cwd = await testWorkspace();

  const denied = await qm(cwd, ["explain", "file__delete"]);
  const hidden = await qm(cwd, ["explain", "file__write", "--actor", "reader"]);
  const missing = await qm(cwd, ["explain", "file__raed"]);

  expect(denied.out).toMatch(/^file__delete for actor default: visible, but denied$/m);
  expect(denied.out).toMatch(/^tag-rules +deny +no-deleting$/m);
  expect(denied.out).toMatch(/^tool-policy +nothing$/m);
  expect(denied.out).toContain('change or remove the rule "no-deleting"');
  expect(hidden.out).toContain("hidden, as if it did not exist");
  expect(hidden.out).toContain('add "file__write" to actors.reader.tools');
  expect(missing.out).toContain("Did you mean file__read?");
});

describe("events", () => {
  test("filters, and has a message for an empty result", async () => {
    const cwd = await testWorkspace();
    const before = await qm(cwd, ["events"]);
    await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}', "--session", "one"]);
    await qm(cwd, ["invoke", "file__list", "{}", "--session", "two"]);

    const types = async (...options: string[]) =>
      JSON.parse((await qm(cwd, ["events", "--json", ...options])).out).events.map(
        ({ session, type }: { session: string; type: string }) => `${session} ${type}`,
      );

    expect(before.out).toContain("No events yet");
    expect(await types("--session", "one", "--type", "call.")).toEqual([
      "one call.received",
      "one call.decided",
      "one call.ended",
    ]);
    expect(await types("--action", "file__list", "--limit", "1")).toEqual(["two call.ended"]);
    expect(await types("--actor", "reader")).toEqual([]);
    expect((await qm(cwd, ["events", "--type", "zzz"])).out).toContain("call.received");
  });

  test("shows calls on a wide terminal, and finds one by an abbreviated id", async () => {
    const cwd = await testWorkspace();
    const first = "01234567-0001-7000-8000-000000000001";
    const second = "01234567-0002-7000-8000-000000000002";
    for (const [session, id] of Object.entries({ one: first, two: second })) {
      await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}', "--session", session]);
      tamper(cwd, `update events set call_id = '${id}' where session = '${session}'`);
    }
    const events = (...options: string[]) => qm(cwd, ["events", "--no-color", ...options], { columns: 100 });

    const wide = await events();
    const narrow = await qm(cwd, ["events", "--no-color"], { columns: 99 });
    const found = await events("--call", second.slice(0, 13));
    const several = await events("--call", first.slice(0, 8));
    const short = await events("--call", first.slice(0, 7));

    expect(wide.out).toMatch(/^\S+ +session +call +actor +event/);
    expect(wide.out).toContain(first.slice(0, 13));
    expect(narrow.out).not.toContain(first.slice(0, 13));
    for (const line of wide.out.split("\n")) expect(line.length).toBeLessThanOrEqual(100);
    expect(found.out.match(/call\.ended/g)).toHaveLength(1);
    expect(found.out).not.toContain(first.slice(0, 13));
    expect(several).toMatchObject({ code: 2, err: expect.stringContaining(second) });
    expect(short.out).toContain("No event matches.");
  });

  test("follows the events of other processes, one JSON object per line", async () => {
    const cwd = await testWorkspace();
    const interrupt = new AbortController();
    const lines: string[] = [];
    const stdout = { write: (text: string) => void lines.push(text), isTTY: false };
    await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}']);

    const argv = ["events", "--follow", "--json", "--type", "call.ended"];
    const following = qm(cwd, argv, { stdout, signal: interrupt.signal });
    await vi.waitFor(() => expect(lines).toHaveLength(1), 10_000);
    await qm(cwd, ["invoke", "file__list", "{}"]);
    await vi.waitFor(() => expect(lines).toHaveLength(2), 10_000);
    interrupt.abort();

    expect((await following).code).toBe(130);
    expect(lines.map((line) => JSON.parse(line).action)).toEqual(["file__read", "file__list"]);
  });

  test("escapes control characters that an agent wrote into the ledger", async () => {
    const cwd = await testWorkspace();
    await qm(cwd, ["invoke", `x${ESCAPE}]0;pwned\u0007\u202E__y`, "{}", "--session", `s${ESCAPE}[2J`]);

    const table = await qm(cwd, ["events"]);
    const json = await qm(cwd, ["events", "--json"]);

    expect(table.out + json.out).not.toMatch(/[\u202E]/);
    expect(table.out + json.out).not.toContain(ESCAPE);
    expect(JSON.parse(json.out).events.at(-1).session).toBe(`s${ESCAPE}[2J`);
  });

  test("verify finds a changed line", async () => {
    const cwd = await testWorkspace();
    await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}']);
    tamper(cwd, "update events set data = replace(data, 'a.txt', 'b.txt') where session = 'local' and seq = 1");

    const ran = await qm(cwd, ["events", "verify"]);
    const json = await qm(cwd, ["events", "verify", "--json", "--session", "local"]);
    const doctor = await qm(cwd, ["doctor"]);

    expect(ran.code).toBe(1);
    expect(ran.out).toMatch(/^local +1 +changed +line 1 does not match its hash$/m);
    expect(JSON.parse(json.out)).toMatchObject({ ok: false, broken: [{ session: "local", seq: 1 }] });
    expect(doctor.code).toBe(1);
    expect(doctor.out).toMatch(/^fail {2}ledger/m);
  });

  test("verify reports an empty ledger", async () => {
    const cwd = await testWorkspace();
    const store = join(cwd, ".quartermaster/quartermaster.db");

    const absent = await qm(cwd, ["events", "verify"]);
    await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}']);
    const named = await qm(cwd, ["events", "verify", "--session", "nosuch", "--save", "heads.json"]);

    expect(absent).toEqual({ code: 0, out: `No events yet in ${store}.\n`, err: "" });
    expect(named).toMatchObject({ code: 1, out: "" });
    expect(named.err).toContain(`nothing to check: session "nosuch" has no event in ${store}`);
    expect(existsSync(join(cwd, "heads.json"))).toBe(false);
  });

  test("verify with saved chain ends detects a replaced ledger", async () => {
    const cwd = await testWorkspace();
    await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}']);

    const saved = await qm(cwd, ["events", "verify", "--save", "heads.json"]);
    await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}']);
    const later = await qm(cwd, ["events", "verify", "--against", "heads.json"]);
    await rm(join(cwd, ".quartermaster"), { recursive: true });
    const gone = await qm(cwd, ["events", "verify", "--against", "heads.json", "--save", "heads.json"]);

    expect(saved).toMatchObject({
      code: 0,
      out: expect.stringContaining("Saved the heads of 2 chains to heads.json."),
    });
    expect(later.code).toBe(0);
    expect(gone.code).toBe(1);
    expect(gone.out).toContain("nothing is left of the session");
    expect(gone.out).toContain("Nothing was saved");
    expect(JSON.parse(await readFile(join(cwd, "heads.json"), "utf8"))).toHaveLength(2);
    expect((await qm(cwd, ["events", "verify", "--against", "a.txt"])).code).toBe(2);
  });
});

describe("doctor", () => {
  test("passes for a valid workspace, and changes nothing", async () => {
    const cwd = await createTestFolder();

    const ran = await qm(cwd, ["doctor"]);

    expect(ran.out).toContain("All checks passed.");
    expect(ran.code).toBe(0);
    expect(ran.out).toMatch(/^ok {4}reach +file actions reach neither the configuration nor the ledger$/m);
    expect(await readdir(cwd)).toEqual([]);
  });

  test("fails when the file actions could change the ledger's folder", async () => {
    const cwd = await createTestFolder({ "quartermaster.yaml": "providers: { file: { root: .quartermaster } }" });

    const ran = await qm(cwd, ["doctor"]);

    expect(ran.code).toBe(1);
    expect(ran.out).toMatch(/^fail {2}actions +the file root .* is inside a path protected by Quartermaster$/m);
  });

  test("names each problem and its fix", async () => {
    const old = await qm(await createTestFolder(), ["doctor"], { nodeVersion: "18.0.0" });
    const config = await qm(await createTestFolder({ "quartermaster.yaml": "policy: { denyed: [] }" }), ["doctor"]);
    const actor = await qm(await createTestFolder({ "quartermaster.yaml": "actors: { r: { tools: [file__raed] } }" }), [
      "doctor",
    ]);
    const root = await qm(await createTestFolder({ "quartermaster.yaml": "providers: { file: { root: nowhere } }" }), [
      "doctor",
    ]);
    const store = await qm(
      await createTestFolder({ "quartermaster.yaml": "store: { path: not-a-store }", "not-a-store": "x".repeat(5000) }),
      ["doctor"],
    );

    for (const ran of [old, config, actor, root, store]) expect(ran.code).toBe(1);
    expect(old.out).toContain("Install Node 20.19");
    expect(config.out).toContain("did you mean denied?");
    expect(actor.out).toContain("did you mean file__read?");
    expect(root.out).toContain("change providers.file.root");
    expect(store.out).toContain("is not a SQLite database");
  });
});

test("explains that the tools of a server are not known yet", async () => {
  const cwd = await createTestFolder({ "quartermaster.yaml": "servers: { every: { command: node } }\n" });

  const { code, out } = await qm(cwd, ["explain", "mcp__every__get-sum"]);

  expect(code).toBe(4);
  expect(out).toContain("Not known yet: the tools of every. Run `qm servers start every`");
  expect(out).not.toContain("does not exist");
});

test("the help of the program lists each option once", async () => {
  const { out } = await qm(await createTestFolder(), ["--help"]);

  expect(out.match(/--no-color/g)).toHaveLength(1);
});

test("init writes a valid file, and does not overwrite one", async () => {
  const cwd = await createTestFolder();

  const first = await qm(cwd, ["init"]);
  const list = await qm(cwd, ["list"]);
  await writeFile(join(cwd, "quartermaster.yaml"), "{}");
  const second = await qm(cwd, ["init"]);
  const kept = await readFile(join(cwd, "quartermaster.yaml"), "utf8");
  const forced = await qm(cwd, ["init", "--force"]);

  expect(first.out).toMatch(/What next:.*qm import .*qm connect /s);
  expect(list.code).toBe(0);
  expect(second).toMatchObject({ code: 1, err: expect.stringContaining("--force") });
  expect(kept).toBe("{}");
  expect(forced.code).toBe(0);
});

test.each([
  [[], {}, ["file__glob", "file__grep", "file__list", "file__read", "file__watch"]],
  [[], atTerminal("\n"), ["file__glob", "file__grep", "file__list", "file__read", "file__watch"]],
  [[], atTerminal("none\n"), []],
  [["--files", "write"], {}, expect.arrayContaining(["file__delete", "file__edit", "file__write"])],
  [["--files", "none"], {}, []],
])("init %j chooses the file actions", async (options, terminal, expected) => {
  const cwd = await createTestFolder();

  await qm(cwd, ["init", ...options], terminal);

  const { out } = await qm(cwd, ["list", "--filter", "file__", "--all", "--json"]);
  const { items } = JSON.parse(out) as { items: readonly { qualified_name: string }[] };
  expect(items.map((item) => item.qualified_name).filter((name) => name.startsWith("file__"))).toEqual(expected);
});

test("init refuses an unknown answer, and writes nothing", async () => {
  const cwd = await createTestFolder();

  const asked = await qm(cwd, ["init"], atTerminal("all\n"));
  const given = await qm(cwd, ["init", "--files", "all"]);

  expect([asked.code, given.code]).toEqual([2, 2]);
  expect(await readdir(cwd)).toEqual([]);
});

test("files are read-only without a configuration", async () => {
  const cwd = await createTestFolder({ "a.txt": "hello" });

  expect((await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}'])).code).toBe(0);
  expect((await qm(cwd, ["invoke", "file__delete", '{"path":"a.txt"}'])).code).toBe(4);
});

describe("tour", () => {
  test("shows a completed, a refused and a failed call, and verifies the ledger", async () => {
    const cwd = await createTestFolder();
    const before = (await readdir(tmpdir())).filter((name) => name.startsWith("qm-tour-"));

    const ran = await qm(cwd, ["tour"]);

    expect(ran).toMatchObject({ code: 0, err: "" });
    expect(ran.out).toContain("exit code 0: done");
    expect(ran.out).toContain("exit code 3: refused");
    expect(ran.out).toContain("exit code 1: failed");
    expect(ran.out).toMatch(/^tag-rules +deny +no-deleting$/m);
    expect(ran.out).toMatch(/call\.ended +file__delete +refused \(denied\)/);
    expect(ran.out).toMatch(/^intact: \d+ events in 2 sessions/m);
    expect(ran.out).toContain("Three commands to try");
    expect((await readdir(tmpdir())).filter((name) => name.startsWith("qm-tour-"))).toEqual(before);
    expect(await readdir(cwd)).toEqual([]);
  });

  test("keeps its folder with an option, and prints JSON", async () => {
    const ran = await qm(await createTestFolder(), ["tour", "--keep", "--json"]);

    const { folder, stops } = JSON.parse(ran.out);
    expect(ran.code).toBe(0);
    expect(stops.map(({ code }: { code: number }) => code)).toEqual([0, 0, 0, 3, 1, 0, 0, 0, 0]);
    expect(stops.at(-1).answer).toMatchObject({ ok: true, broken: [] });
    expect((await qm(folder, ["events", "verify"])).code).toBe(0);
    await rm(folder, { recursive: true });
  });
});

describe("help, suggestions and colours", () => {
  test("qm without arguments shows the help", async () => {
    const ran = await qm(await createTestFolder(), []);

    expect(ran).toMatchObject({ code: 0, err: "", out: expect.stringContaining("Usage: qm") });
  });

  test("suggests a name for a misspelt one", async () => {
    const cwd = await createTestFolder();

    expect((await qm(cwd, ["lst"])).err).toContain("Did you mean list?");
    expect((await qm(cwd, ["list", "--fliter", "x"])).err).toContain("Did you mean --filter?");
    const help = await qm(cwd, ["help", "lst"]);
    expect(help).toMatchObject({
      out: "",
      err: expect.stringMatching(/^qm: unknown command "lst".*did you mean list\?/),
    });
  });

  test.each<[string, string]>([
    ["note list", "qm --help"],
    ["notes lst", "qm notes --help"],
    ["--actor notes lst", "qm --help"],
    ["--actor=list notes lst", "qm notes --help"],
    ["notes --no-color lst list", "qm notes --help"],
    ["notes remove --bogus", "qm notes rm --help"],
    ["search notes list --bogus", "qm search --help"],
  ])("`qm %s` names the help of the typed command", async (line, help) => {
    const { code, err } = await qm(await createTestFolder(), line.split(" "));

    expect({ code, hint: /Run `(qm [^`]*)` for the usage/.exec(err)?.[1] }).toEqual({ code: 2, hint: help });
  });

  test.each(["list", "describe", "invoke", "explain", "events", "doctor", "init", "completion", "tour"])(
    "qm %s --help has an example and the global options",
    async (command) => {
      const { out } = await qm(await createTestFolder(), [command, "--help"]);

      expect(out).toMatch(/Examples:\n {2}\$ /);
      expect(out).toContain("--json");
      expect(out).toContain("--json");
    },
  );

  test("prints colours on terminals only, or on request", async () => {
    const cwd = await testWorkspace();
    const colored = async (argv: string[], given: Parameters<typeof qm>[2] = {}) =>
      (await qm(cwd, argv, given)).out.includes(ESCAPE);

    expect(await colored(["list"])).toBe(false);
    expect(await colored(["list"], { columns: 80 })).toBe(true);
    expect(await colored(["list", "--no-color"], { columns: 80 })).toBe(false);
    expect(await colored(["list"], { columns: 80, env: { NO_COLOR: "1" } })).toBe(false);
    expect(await colored(["list"], { columns: 80, env: { TERM: "dumb" } })).toBe(false);
    expect(await colored(["list"], { env: { FORCE_COLOR: "1" } })).toBe(true);
    expect(await colored(["list", "--json"], { columns: 80, env: { FORCE_COLOR: "1" } })).toBe(false);
  });
});

describe("as a process", () => {
  test("prints no escape codes into a pipe", async () => {
    const cwd = await testWorkspace();

    const { ended } = start(cwd, ["tour"]);

    const ran = await ended;
    expect(ran.code).toBe(0);
    expect(ran.out).not.toContain(ESCAPE);
    expect(ran.err).toBe("");
  });

  test("exits with 0 when the reader closes the pipe", async () => {
    const cwd = await testWorkspace();
    const command = qmCommand.map((word) => `"${word}"`).join(" ");

    const ran = spawnSync("bash", ["-c", `set -o pipefail; ${command} tour | head -1`], {
      cwd,
      encoding: "utf8",
      env: plainEnvironment(),
    });

    expect(ran).toMatchObject({ status: 0, stderr: "" });
    expect(ran.stdout).toMatch(/^A new workspace/);
  });

  test.runIf(existsSync("/dev/full")).each(["list", "list --json", "invoke file__list", "events", "help", "tour"])(
    "qm %s > /dev/full prints one error line, and leaves nothing behind",
    async (line) => {
      const cwd = await testWorkspace();
      const command = [...qmCommand.map((word) => `"${word}"`), line].join(" ");

      const ran = spawnSync("bash", ["-c", `${command} > /dev/full`], {
        cwd,
        encoding: "utf8",
        env: { ...plainEnvironment(), TMPDIR: cwd },
      });

      expect(ran.stderr).toMatch(/^qm: the output could not be written: ENOSPC.*\n$/);
      expect(ran.status).toBe(1);
      expect((await readdir(cwd)).filter((name) => name.startsWith("qm-tour-"))).toEqual([]);
    },
  );

  test("Ctrl-C cancels the call, records it and exits with 130", async () => {
    const cwd = await longCallFolder();

    const { child, ended } = start(cwd, longCall);
    await vi.waitFor(async () => expect(await eventTypes(cwd)).toContain("call.decided"), 20_000);
    child.kill("SIGINT");

    const ran = await ended;
    expect(ran.code).toBe(130);
    expect(ran.err).toContain("was cancelled");
    expect(ran.err).not.toMatch(/\n\s+at /);
    expect(await endings(cwd)).toMatchObject([{ status: "failed", code: "cancelled" }]);
    expect((await qm(cwd, ["events", "verify"])).code).toBe(0);
  });

  test("two processes share one store and one chain", async () => {
    const cwd = await testWorkspace();
    const argv = ["invoke", "file__read", '{"path":"a.txt"}'];

    const both = await Promise.all([start(cwd, argv).ended, start(cwd, argv).ended]);

    expect(both.map(({ code, err }) => ({ code, err }))).toEqual([
      { code: 0, err: "" },
      { code: 0, err: "" },
    ]);
    expect(await endings(cwd)).toMatchObject([{ status: "done" }, { status: "done" }]);
    expect((await qm(cwd, ["events", "verify"])).code).toBe(0);
  });
});

function tamper(cwd: string, statement: string): void {
  const db = new DatabaseSync(join(cwd, ".quartermaster/quartermaster.db"));
  db.exec(statement);
  db.close();
}
