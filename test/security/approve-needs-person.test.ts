import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { afterEach, describe, expect, test } from "vitest";
import type { ApprovalView } from "../../src/approval/approval.ts";
import {
  atTerminal,
  cleanUp,
  createTestFolder,
  plainEnvironment,
  qm,
  qmCommand,
  start,
} from "../../src/cli/testing.ts";
import { quoteShellWord } from "../../src/core/display-text.ts";

// An agent that has a shell can run `qm`. It has no terminal and no approver's token, so it cannot approve its own calls.

afterEach(cleanUp);

const ANN = "ann-has-a-long-token";
const VIC = "vic-has-a-long-token";
const env = { ANN, VIC };
const CONFIG = {
  providers: { file: { read_only: false } },
  policy: { rules: [{ name: "ask-first", rule: "tool.name == 'file__edit'", effect: "ask" }] },
  approvals: {
    approvers: {
      ann: { roles: ["approver", "admin"], token: `\${secret:ANN}` },
      vic: { roles: ["viewer"], token: `\${secret:VIC}` },
    },
  },
};
const EDIT = JSON.stringify({ path: "a.txt", old_string: "hello", new_string: "bye" });

async function waitingCall(config: object = CONFIG) {
  const cwd = await createTestFolder({ "quartermaster.yaml": JSON.stringify(config), "a.txt": "hello\n" });
  for (const [name, token] of Object.entries(env)) await qm(cwd, ["secrets", "set", name], atTerminal(`${token}\n`));
  const { out } = await qm(cwd, ["invoke", "file__edit", EDIT, "--json"], { env });
  const { id } = JSON.parse(out).approval as { id: string };
  const state = async () => {
    const shown = await qm(cwd, ["approvals", "show", id, "--json"], { env });
    return (JSON.parse(shown.out) as ApprovalView).state;
  };
  return { cwd, id, state, content: () => readFile(join(cwd, "a.txt"), "utf8") };
}

describe("a program without a terminal", () => {
  test.each([
    ["no approvers are configured", { ...CONFIG, approvals: {} }],
    ["approvers are configured", CONFIG],
  ])("cannot approve with --yes when %s", async (_where, config) => {
    const { cwd, id, state, content } = await waitingCall(config);

    const ran = await start(cwd, ["approvals", "approve", id, "--yes"], env).ended;
    const asAnn = await start(cwd, ["approvals", "approve", id, "--yes", "--as", "ann", "--json"], env).ended;

    expect([ran.code, asAnn.code]).toEqual([3, 3]);
    expect(ran.err).toContain("QM_APPROVER_TOKEN");
    expect(JSON.parse(asAnn.out)).toMatchObject({ error: { code: "denied" } });
    expect([await state(), await content()]).toEqual(["pending", "hello\n"]);
  });

  test.each([
    ["approvals link", ["approvals", "link", "ID", "--for", "ann"]],
    ["approvals show --reveal", ["approvals", "show", "ID", "--reveal", "--as", "ann"]],
    ["servers add", ["servers", "add", "--yes", "--name", "x", "--", "node", "x.mjs"]],
    ["servers remove", ["servers", "remove", "x", "--yes"]],
  ])("cannot use `qm %s`", async (_command, argv) => {
    const { cwd, id, state } = await waitingCall();

    const ran = await qm(
      cwd,
      argv.map((word) => (word === "ID" ? id : word)),
      { env: { ...env, PATH: process.env.PATH } },
    );

    expect(ran).toMatchObject({ code: 3, err: expect.stringContaining("a person at a terminal") });
    expect(ran.out).not.toContain("/approve?t=");
    expect(await state()).toBe("pending");
    expect(await readFile(join(cwd, "quartermaster.yaml"), "utf8")).toBe(JSON.stringify(CONFIG));
  });

  test("cannot choose the approver's token itself", async () => {
    const approvers = {
      ann: { roles: ["admin"], token: `\${env:ANN}` },
      bob: { roles: ["admin"], token: `\${secret:BOB}` },
    };
    const { cwd, id, state } = await waitingCall({ ...CONFIG, approvals: { approvers } });
    const own = "a-token-of-my-own-choice";
    const approve = (variable: string) =>
      start(cwd, ["approvals", "approve", id, "--yes"], { [variable]: own, QM_APPROVER_TOKEN: own }).ended;

    expect((await approve("ANN")).code).toBe(3);
    expect((await approve("secret:BOB")).code).toBe(3);
    expect(await qm(cwd, ["secrets", "set", "BOB"], { stdin: Readable.from([own]) })).toMatchObject({ code: 3 });
    expect((await approve("BOB")).code).toBe(3);

    expect(await state()).toBe("pending");
  });

  test("can deny", async () => {
    const { cwd, id, state } = await waitingCall();

    const ran = await start(cwd, ["approvals", "deny", id, "--yes", "--as", "ann"], env).ended;

    expect([ran.code, await state()]).toEqual([0, "denied"]);
  });

  test("approves with an approver's token, as that approver and with their roles", async () => {
    const { cwd, id, state, content } = await waitingCall();
    const approve = (token: string, ...more: string[]) =>
      start(cwd, ["approvals", "approve", id, "--yes", ...more], { ...env, QM_APPROVER_TOKEN: token }).ended;

    expect(await approve("nobodys-token-at-all")).toMatchObject({
      code: 3,
      err: expect.stringContaining("belongs to no approver"),
    });
    expect(await approve(VIC)).toMatchObject({ code: 3, err: expect.stringContaining("vic has none of the roles") });
    expect((await approve(VIC, "--as", "ann")).code).toBe(2);
    expect(await state()).toBe("pending");
    expect(await approve(ANN)).toMatchObject({ code: 0 });

    expect([await state(), await content()]).toEqual(["done", "bye\n"]);
  });
});

describe("a person at a terminal", () => {
  test("is asked even with --yes unless a token is given", async () => {
    const { cwd, id, state } = await waitingCall();

    const ran = await qm(cwd, ["approvals", "approve", id, "--yes", "--as", "ann"], { env, ...atTerminal("n\n") });

    expect(ran.err).toContain("Approve exactly this call? [y/N]");
    expect([ran.code, await state()]).toEqual([3, "pending"]);
  });

  const hasScript = process.platform === "linux" && spawnSync("script", ["--version"]).status === 0;

  test.skipIf(!hasScript)("answers at a real terminal, and the call runs", async () => {
    const { cwd, id, state, content } = await waitingCall();
    const command = [...qmCommand, "approvals", "approve", id, "--as", "ann"].map(quoteShellWord).join(" ");
    const child = spawn("script", ["-qec", command, "/dev/null"], { cwd, env: { ...plainEnvironment(), ...env } });
    let out = "";
    child.stdout.on("data", (part) => {
      out += part;
      if (out.includes("[y/N] ")) child.stdin.end("y\n");
    });

    const [code] = await once(child, "close");

    expect([code, await state(), await content()]).toEqual([0, "done", "bye\n"]);
    expect(out).toContain('"new_string": "bye"');
  });
});
