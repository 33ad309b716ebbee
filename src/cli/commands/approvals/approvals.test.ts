import { readdir, readFile, writeFile } from "node:fs/promises";
import { userInfo } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { ApprovalView } from "../../../approval/approval.ts";
import { openWorkspace } from "../../../workspace/workspace.ts";
import { atTerminal, cleanUp, createTestFolder, eventTypes, qm, start } from "../../testing.ts";

afterEach(cleanUp);

const env = { USER: "ann" };
const ASKING = {
  providers: { file: { read_only: false } },
  policy: { rules: [{ name: "ask-first", rule: "tool.name == 'file__edit'", effect: "ask" }] },
};
const EDIT = { path: "a.txt", old_string: "hello", new_string: "bye" };

async function folder(config: object = {}): Promise<string> {
  return createTestFolder({ "quartermaster.yaml": JSON.stringify({ ...ASKING, ...config }), "a.txt": "hello\n" });
}

/** Makes a call that waits, and answers its approval's id. */
async function asked(cwd: string, args: object = EDIT, options: readonly string[] = []): Promise<string> {
  const { code, out } = await qm(cwd, ["invoke", "file__edit", JSON.stringify(args), "--json", ...options], { env });
  expect(code).toBe(3);
  return (JSON.parse(out) as { approval: { id: string } }).approval.id;
}

const approvals = (cwd: string, argv: readonly string[], io: Parameters<typeof qm>[2] = {}) =>
  qm(cwd, ["approvals", ...argv], { env, ...io });

async function shown(cwd: string, id: string): Promise<ApprovalView> {
  return JSON.parse((await approvals(cwd, ["show", id, "--json"])).out) as ApprovalView;
}

const contentOf = (cwd: string) => readFile(join(cwd, "a.txt"), "utf8");

/** The same by a person at a terminal, who says yes when asked. */
const agreeing = (cwd: string, argv: readonly string[], typed = "y\n") =>
  approvals(cwd, argv, { ...atTerminal(typed), env: { ...env, NO_COLOR: "1" } });

describe("qm approvals list", () => {
  test("explains an empty list, and creates no store", async () => {
    const cwd = await folder();

    const { out, code } = await approvals(cwd, ["list"]);

    expect(code).toBe(0);
    expect(out).toContain("No call waits for an answer.");
    expect(out).toContain("the effect `ask`");
    expect(await readdir(cwd)).toEqual(["a.txt", "quartermaster.yaml"]);
  });

  test.each([
    [["run"], 0],
    [["run", "0198c0de"], 4],
    [["approve", "0198c0de", "--yes"], 4],
    [["show", "0198c0de-1a2b-7c3d-8e4f-5a6b7c8d9e0f"], 4],
  ])("%j creates no store", async (argv, code) => {
    const cwd = await folder();

    expect((await approvals(cwd, argv)).code).toBe(code);
    expect(await readdir(cwd)).toEqual(["a.txt", "quartermaster.yaml"]);
  });

  test("shows action, level and caller of pending calls, or of other states", async () => {
    const cwd = await folder();
    const [one, other] = [
      await asked(cwd, EDIT, ["--user", "eve"]),
      await asked(cwd, { ...EDIT, new_string: "ciao" }, ["--session", "s2"]),
    ];
    await approvals(cwd, ["deny", one, "--yes"]);
    const rows = async (...argv: string[]) =>
      (JSON.parse((await approvals(cwd, ["list", "--json", ...argv])).out) as { approvals: ApprovalView[] }).approvals;

    const { out } = await approvals(cwd, ["list"]);

    expect(out).toMatch(
      new RegExp(`^${other.slice(0, 13)} +pending +file__edit +user +\\d+s +23h +default in s2 +{"path":.*"ciao"`, "m"),
    );
    expect(out).not.toContain(one.slice(0, 13));
    expect((await rows("--all")).map(({ id }) => id)).toEqual([one, other]);
    expect((await rows("--state", "denied")).map(({ id }) => id)).toEqual([one]);
    expect((await rows("--state", "denied,pending")).map(({ id }) => id)).toEqual([one, other]);
    expect((await rows("--all", "--user", "eve")).map(({ id }) => id)).toEqual([one]);
    expect(await rows("--session", "nobody")).toEqual([]);
    expect(await rows("--all", "--action", "file__read")).toEqual([]);
    expect(await rows("--all", "--limit", "1")).toHaveLength(1);
  });

  test.each([[["--state", "open"]], [["--state", "done,open"]], [["--all", "--state", "done"]]])(
    "%j is wrong usage",
    async (options) => {
      expect((await approvals(await folder(), ["list", ...options])).code).toBe(2);
    },
  );
});

describe("qm approvals show", () => {
  test("shows the exact call, its caller, the reason and the expiry", async () => {
    const cwd = await folder();
    const id = await asked(cwd, EDIT, ["--user", "eve"]);

    const { out, code } = await approvals(cwd, ["show", id]);

    expect(code).toBe(0);
    for (const part of [id, "file__edit", '"new_string": "bye"', "ask-first", "default in local, user eve", "pending"])
      expect(out).toContain(part);
    expect(await shown(cwd, id)).toMatchObject({ id, action: "file__edit", args: EDIT, state: "pending", user: "eve" });
  });

  test("accepts a unique prefix of an id with at least 6 characters", async () => {
    const cwd = await folder();
    const one = await asked(cwd);
    const other = await asked(cwd, { ...EDIT, new_string: "ciao" });
    const code = async (id: string) => (await approvals(cwd, ["show", id])).code;
    const common = [...one].findIndex((letter, at) => letter !== other[at]);

    expect(await code(one.slice(0, Math.max(6, common + 1)))).toBe(0);
    expect(await code(one.slice(0, 5))).toBe(2);
    expect(await code("ffffffff")).toBe(4);
    const both = await approvals(cwd, ["show", one.slice(0, Math.max(6, common))]);
    expect(both).toMatchObject({ code: 2, err: expect.stringContaining(other) });
  });

  test("names the roles that may approve", async () => {
    const cwd = await folder({ approvals: { levels: { user: { roles: ["clerk", "chief"] } } } });

    const { out } = await approvals(cwd, ["show", await asked(cwd)]);

    expect(out).toContain("anyone with one of the roles clerk, chief (level user)");
  });

  test("cuts long arguments with a note, and shows them with --full", async () => {
    const cwd = await folder();
    const id = await asked(cwd, { ...EDIT, new_string: `${"x".repeat(5_000)}end` });

    const short = await approvals(cwd, ["show", id]);
    const full = await approvals(cwd, ["show", id, "--full"]);

    expect(short.out).not.toContain("xend");
    expect(short.out).toContain(`\`qm approvals show ${id} --full\` shows everything`);
    expect((await approvals(cwd, ["approve", id])).out).toContain("xend");
    expect(full.out).toContain("xend");
    expect(full.out).not.toContain("--full");
  });

  test("shows that a call was denied, without an end", async () => {
    const cwd = await folder();
    const id = await asked(cwd);
    await approvals(cwd, ["deny", id, "--yes"]);

    const { out } = await approvals(cwd, ["show", id]);

    expect(out).toContain("denied by ann (cli)");
    expect(out).not.toMatch(/ended|undefined|interrupted/);
  });

  test("escapes untrusted text", async () => {
    const cwd = await folder();
    const id = await asked(cwd, { ...EDIT, new_string: "\u001B[2J\u202Eevil\u0007" }, ["--session", "s\u001B[31m"]);

    for (const argv of [["list"], ["show", id], ["deny", id]]) {
      const { out, err } = await approvals(cwd, argv, { columns: 100, env: { ...env, NO_COLOR: "1" } });
      // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
      expect(out + err).not.toMatch(/[\u001B\u0007\u202E]/);
    }
  });
});

describe("qm approvals approve", () => {
  test("shows the call, asks, and runs exactly this call once", async () => {
    const cwd = await folder();
    const id = await asked(cwd);

    const ran = await agreeing(cwd, ["approve", id, "--reason", "as discussed"]);

    expect(ran).toMatchObject({ code: 0, err: expect.stringContaining("Approve exactly this call? [y/N]") });
    expect(ran.out).toContain('"new_string": "bye"');
    expect(ran.out).toContain("It ran successfully");
    expect(await contentOf(cwd)).toBe("bye\n");
    expect(await shown(cwd, id)).toMatchObject({
      state: "done",
      status: "done",
      answer: { decision: "approved", by: "ann", via: "cli", reason: "as discussed" },
    });
    expect((await eventTypes(cwd)).filter((type) => type === "call.ended")).toHaveLength(1);
  });

  test.each(["n\n", "", "yess\n"])("does nothing when %j is answered", async (answer) => {
    const cwd = await folder();
    const id = await asked(cwd);

    const refused = await agreeing(cwd, ["approve", id], answer);
    const unattended = await approvals(cwd, ["approve", id]);

    expect([refused.code, unattended.code]).toEqual([3, 3]);
    expect(await shown(cwd, id)).toMatchObject({ state: "pending" });
    expect(await contentOf(cwd)).toBe("hello\n");
  });

  test("delivers the outcome, so that the same call asks again", async () => {
    const cwd = await folder();
    await agreeing(cwd, ["approve", await asked(cwd)]);

    const again = await qm(cwd, ["invoke", "file__edit", JSON.stringify(EDIT), "--json"], { env });

    expect(JSON.parse(again.out)).toMatchObject({ status: "waiting" });
    expect(await contentOf(cwd)).toBe("bye\n");
  });

  test("leaves the outcome of a denied call to its caller", async () => {
    const cwd = await folder();
    await approvals(cwd, ["deny", await asked(cwd), "--yes"]);

    const again = await qm(cwd, ["invoke", "file__edit", JSON.stringify(EDIT)], { env });

    expect(again.code).toBe(3);
    expect(again.err).toContain("this is the result of the same call made earlier");
    expect(again.err).toContain("denied this call");
  });

  test("prints only the approval and the outcome with --json", async () => {
    const cwd = await folder();
    const id = await asked(cwd);

    const { out } = await agreeing(cwd, ["approve", id, "--json"]);

    expect(JSON.parse(out)).toMatchObject({ approval: { id, state: "done" }, outcome: { status: "done" } });
  });

  test("fails if the call fails", async () => {
    const cwd = await folder();
    const id = await asked(cwd, { ...EDIT, old_string: "not there" });

    const ran = await agreeing(cwd, ["approve", id]);

    expect(ran.code).toBe(1);
    expect(await shown(cwd, id)).toMatchObject({ state: "done", status: "failed" });
    expect((await approvals(cwd, ["show", id])).out).toContain("ended: failed: old_string is not in");
    expect((await approvals(cwd, ["list", "--all"])).out).toContain("done, failed");
  });

  test("prints why a call failed with `run`, and fails", async () => {
    const cwd = await folder();
    const id = await asked(cwd, { ...EDIT, old_string: "not there" });
    await agreeing(cwd, ["approve", id, "--no-run"]);

    const all = await approvals(cwd, ["run"]);

    expect(all).toMatchObject({ code: 1, out: expect.stringContaining("file__edit: failed: old_string is not in") });
  });

  test("appears in the event table", async () => {
    const cwd = await folder();
    const id = await asked(cwd);
    await approvals(cwd, ["deny", id, "--yes", "--reason", "not today"]);

    const { out } = await qm(cwd, ["events", "--type", "approval."]);

    expect(out).toContain("level user, asked by ask-first, until 20");
    expect(out).toContain("denied by ann (cli): not today");
  });

  test("uses the account name if the environment has no user", async () => {
    const cwd = await folder();
    const id = await asked(cwd);

    await approvals(cwd, ["deny", id, "--yes"], { env: {} });

    expect((await shown(cwd, id)).answer?.by).toBe(userInfo().username);
  });

  test("leaves the call to `run` with --no-run", async () => {
    const cwd = await folder();
    const [id, other] = [await asked(cwd), await asked(cwd, { ...EDIT, old_string: "bye", new_string: "ciao" })];

    const approved = await agreeing(cwd, ["approve", id, "--no-run"]);
    expect(approved.code).toBe(0);
    expect(await shown(cwd, id)).toMatchObject({ state: "approved" });
    expect(await contentOf(cwd)).toBe("hello\n");
    const one = await approvals(cwd, ["run", id]);
    expect(one).toMatchObject({ code: 0, out: expect.stringContaining("It ran successfully") });
    expect(await contentOf(cwd)).toBe("bye\n");
    await agreeing(cwd, ["approve", other, "--no-run"]);
    const all = JSON.parse((await approvals(cwd, ["run", "--json"])).out);

    expect(all).toMatchObject({ ran: [{ id: other, state: "done" }], left: [] });
    expect(await contentOf(cwd)).toBe("ciao\n");
    expect((await approvals(cwd, ["run"])).out).toContain("There was no approved call to run.");
  });

  test("refuses a wrong role and the requester", async () => {
    const cwd = await folder({
      approvals: { approvers: { ann: { roles: ["viewer"] }, bob: { roles: ["approver"] } } },
    });
    const id = await asked(cwd, EDIT, ["--user", "bob"]);
    const approve = (...argv: string[]) => agreeing(cwd, ["approve", id, ...argv]);

    expect(await approve()).toMatchObject({
      code: 3,
      err: expect.stringContaining("No configured approver may"),
    });
    expect((await approve("--as", "bob")).code).toBe(3);
    expect(await approve("--as", "bop")).toMatchObject({ code: 2, err: expect.stringContaining("did you mean bob?") });
    expect((await approve("--as", "__proto__")).code).toBe(2);
    expect(await shown(cwd, id)).toMatchObject({ state: "pending" });
    expect(await contentOf(cwd)).toBe("hello\n");
    expect((await eventTypes(cwd)).filter((type) => type === "approval.refused")).toHaveLength(2);
  });

  test("names who may approve", async () => {
    const approvers = { ann: { roles: ["viewer"] }, bob: { roles: ["approver"] }, cem: { roles: ["admin"] } };
    const cwd = await folder({ approvals: { approvers } });
    const id = await asked(cwd);

    const { err } = await agreeing(cwd, ["approve", id]);

    expect(err).toContain("Who may: bob, cem. If that is you, give --as <name>.");
  });

  test("accepts only configured approvers, if there are any", async () => {
    const cwd = await folder({ approvals: { approvers: { bob: { roles: ["approver"] } } } });
    const id = await asked(cwd);

    expect((await agreeing(cwd, ["approve", id, "--as", "bob"])).code).toBe(0);
    expect(await shown(cwd, id)).toMatchObject({ answer: { by: "bob" } });
  });
});

describe("a second answer", () => {
  test("reports who answered first", async () => {
    const cwd = await folder();
    const id = await asked(cwd);
    await approvals(cwd, ["deny", id, "--yes", "--reason", "no"]);

    const late = await agreeing(cwd, ["approve", id, "--as", "bob"]);

    expect(late).toMatchObject({ code: 1, err: expect.stringContaining("denied by ann (cli): no") });
    expect(await contentOf(cwd)).toBe("hello\n");
    expect((await approvals(cwd, ["run", id])).code).toBe(1);
  });

  test("changes nothing if another process answers at the same time", async () => {
    const token = "one-token-of-an-approver";
    const approvers = { one: { roles: ["approver"], token: `\${secret:ONE}` }, two: { roles: ["approver"] } };
    const cwd = await folder({ approvals: { approvers } });
    await qm(cwd, ["secrets", "set", "ONE"], atTerminal(`${token}\n`));
    const id = await asked(cwd);

    const both = await Promise.all([
      start(cwd, ["approvals", "approve", id, "--yes"], { QM_APPROVER_TOKEN: token }).ended,
      start(cwd, ["approvals", "deny", id, "--yes", "--as", "two"]).ended,
    ]);

    const { answer } = await shown(cwd, id);
    expect(both.map(({ code }) => code).sort()).toEqual([0, 1]);
    expect(answer?.by).toBe(both[0]?.code === 0 ? "one" : "two");
    expect(both.find(({ code }) => code === 1)?.err).toContain(answer?.by);
    expect(await contentOf(cwd)).toBe(answer?.decision === "approved" ? "bye\n" : "hello\n");
  });
});

describe("qm approvals watch", () => {
  test("shows pending calls and every change, one object per line, until Ctrl-C", async () => {
    const cwd = await folder();
    const id = await asked(cwd);
    const stop = new AbortController();
    const lines: string[] = [];
    const stdout = { write: (text: string) => void lines.push(text), isTTY: false };

    const notes: string[] = [];
    const stderr = { write: (text: string) => void notes.push(text), isTTY: false };
    const watching = approvals(cwd, ["watch", "--json"], { signal: stop.signal, stdout, stderr });
    const states = () =>
      lines.map((line) => JSON.parse(line) as ApprovalView).map((each) => `${each.id} ${each.state}`);
    await vi.waitFor(() => expect(states()).toEqual([`${id} pending`]), 10_000);
    const other = await asked(cwd, { ...EDIT, new_string: "ciao" });
    await approvals(cwd, ["deny", id, "--yes"]);
    await vi.waitFor(() => expect(states()).toHaveLength(3), 10_000);
    stop.abort();

    expect((await watching).code).toBe(130);
    expect(notes.join("")).toMatch(/^1 call waits for an answer now\. /);
    expect(states().slice(1).sort()).toEqual([`${id} denied`, `${other} pending`].sort());
  });

  test("waits until the store exists", async () => {
    const cwd = await folder();
    const stop = new AbortController();
    const lines: string[] = [];
    const stdout = { write: (text: string) => void lines.push(text), isTTY: false };

    const notes: string[] = [];
    const stderr = { write: (text: string) => void notes.push(text), isTTY: false };
    const watching = approvals(cwd, ["watch"], { signal: stop.signal, stdout, stderr });
    await vi.waitFor(() => expect(notes.join("")).toMatch(/^No call waits for an answer now\. /), 10_000);
    expect(await readdir(cwd)).toEqual(["a.txt", "quartermaster.yaml"]);
    const id = await asked(cwd);
    await vi.waitFor(() => expect(lines.join("")).toContain(`pending      ${id}  file__edit`), 10_000);
    stop.abort();

    expect((await watching).code).toBe(130);
  });
});

describe("qm approvals link", () => {
  test("is answered once at qm serve, by the named person", async () => {
    const cwd = await folder({ approvals: { approvers: { bob: { roles: ["approver"] } } } });
    const id = await asked(cwd);
    const serving = start(cwd, ["serve", "--port", "0", "--json"]);
    let said = "";
    serving.child.stdout?.on("data", (part) => {
      said += part;
    });
    await vi.waitFor(() => expect(said).toContain("\n"), 20_000);
    const told = JSON.parse(said) as { url: string; approvals: string };
    const { origin } = new URL(told.url);
    expect(told.approvals).toBe(`${origin}/v1/approvals`);
    const made = await agreeing(cwd, ["link", id, "--for", "bob", "--expires", "5m", "--json"]);
    const { url } = JSON.parse(made.out) as { url: string };
    expect(new URL(url).origin).toBe(origin);
    expect(made.err).toBe("");

    const page = await (await fetch(url)).text();
    const [, t = ""] = /name="t" value="([^"]+)"/.exec(page) ?? [];
    const submit = () =>
      fetch(`${origin}/approve`, {
        method: "POST",
        headers: { origin },
        body: new URLSearchParams({ t, decision: "approve" }),
      });
    const first = await submit();
    const second = await submit();

    expect(page).toContain("&quot;new_string&quot;: &quot;bye&quot;");
    expect(await first.text()).toContain("It has run, and is done.");
    expect(second.status).toBe(409);
    expect(await second.text()).toContain("bob was first");
    expect(await contentOf(cwd)).toBe("bye\n");
    expect(await shown(cwd, id)).toMatchObject({ answer: { by: "bob", via: "link" } });
    serving.child.kill("SIGINT");
    await serving.ended;
    expect(await readdir(join(cwd, ".quartermaster"))).not.toContain("address");
  });

  test("uses the configured address with a warning if qm serve is not running", async () => {
    const cwd = await folder({ gateway: { host: "0.0.0.0", port: 7499 } });
    const id = await asked(cwd);
    await writeFile(join(cwd, ".quartermaster/address"), JSON.stringify({ url: "http://x:1/mcp", pid: 2 ** 30 }));

    const { out, err } = await agreeing(cwd, ["link", id, "--for", "bob"]);

    expect(out).toMatch(/^http:\/\/127\.0\.0\.1:7499\/approve\?t=/);
    expect(err).toContain("`qm serve` is not running");
  });

  test("is refused for a person without rights, and warns for one who can only deny", async () => {
    const approvers = { ann: { roles: ["viewer"] }, bob: { roles: ["approver"] } };
    const cwd = await folder({ approvals: { approvers } });
    const id = await asked(cwd, EDIT, ["--user", "bob"]);

    const viewer = await agreeing(cwd, ["link", id, "--for", "ann"]);
    const own = await agreeing(cwd, ["link", id, "--for", "bob"]);

    expect(viewer).toMatchObject({ code: 3, out: "", err: expect.stringContaining("ann has none of the roles") });
    expect(own).toMatchObject({ code: 0, err: expect.stringContaining("they can only deny") });
  });

  test("prints URL, person and expiry, which is not later than that of the approval", async () => {
    const cwd = await folder({ approvals: { public_url: "https://qm.example.com/box/" } });
    const id = await asked(cwd);

    const { out } = await agreeing(cwd, ["link", id.slice(0, 13), "--for", "bob", "--expires", "9d", "--json"]);
    const made = JSON.parse(out) as { url: string; for: string; expires: string };

    expect(made.url).toMatch(/^https:\/\/qm\.example\.com\/box\/approve\?t=[\w.-]+$/);
    expect(made).toMatchObject({ for: "bob", expires: (await shown(cwd, id)).expiresAt });
    const plain = await agreeing(cwd, ["link", id, "--for", "bob"]);
    expect(plain.out).toMatch(/^https:\S+\n$/);
    expect(plain.err).toContain("answers as bob");
  });

  test.each<[string, object, readonly string[], number]>([
    ["nobody", {}, [], 2],
    ["no time", {}, ["--for", "bob", "--expires", "soon"], 2],
    ["who is no approver", { approvers: { ann: { roles: ["approver"] } } }, ["--for", "amn"], 2],
  ])("for %s is refused", async (_whom, settings, argv, code) => {
    const cwd = await folder({ approvals: settings });
    const id = await asked(cwd);

    expect((await agreeing(cwd, ["link", id, ...argv])).code).toBe(code);
  });

  test("is refused for an answered call", async () => {
    const cwd = await folder();
    const id = await asked(cwd);
    await approvals(cwd, ["deny", id, "--yes"]);

    expect(await agreeing(cwd, ["link", id, "--for", "bob"])).toMatchObject({
      code: 1,
      err: expect.stringContaining("denied by ann"),
    });
  });
});

describe("approvers over HTTP, at qm serve", () => {
  const TOKEN = "t".repeat(32);

  test("answer with their own token and their current roles", async () => {
    const config = (roles: readonly string[]) =>
      JSON.stringify({ ...ASKING, approvals: { approvers: { bob: { roles, token: `\${env:BOB}` } } } });
    const cwd = await createTestFolder({ "quartermaster.yaml": config(["viewer"]), "a.txt": "hello\n" });
    const id = await asked(cwd);
    const workspace = await openWorkspace({ cwd, env: { BOB: TOKEN }, watch: true });
    const { openApprovalsApi } = await import("../../../http/approvals-api.ts");
    const api = await openApprovalsApi(workspace, { onProblem: () => {}, signal: new AbortController().signal });
    const answer = async () =>
      api.fetch(
        new Request(`http://localhost/v1/approvals/${id}`, {
          method: "POST",
          headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
          body: '{"decision":"approve"}',
        }),
      );
    try {
      expect((await answer()).status).toBe(403);
      await writeFile(join(cwd, "quartermaster.yaml"), config(["approver"]));
      await vi.waitFor(() => expect(workspace.config.approvals.approvers.bob?.roles).toEqual(["approver"]), 10_000);
      expect((await answer()).status).toBe(200);
      await vi.waitFor(async () => expect(await contentOf(cwd)).toBe("bye\n"), 10_000);
      expect((await answer()).status).toBe(409);
    } finally {
      await workspace.close();
    }
  });
});
