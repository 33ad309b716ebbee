import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { cleanUp, createTestFolder } from "../../src/cli/testing.ts";
import { openWorkspace, type Workspace } from "../../src/workspace/workspace.ts";

const WAIT = { timeout: 30_000, interval: 20 };
const opened: Workspace[] = [];

afterEach(async () => {
  for (const workspace of opened.splice(0)) await workspace.close();
  await cleanUp();
});

interface Watched {
  readonly workspace: Workspace;
  readonly problems: string[];
  write(text: string): Promise<void>;
  remove(): Promise<void>;
  events(type: string): Promise<readonly Record<string, unknown>[]>;
}

async function openWatched(config: string): Promise<Watched> {
  const cwd = await createTestFolder({ "quartermaster.yaml": config, "a.txt": "hello" });
  const path = join(cwd, "quartermaster.yaml");
  const problems: string[] = [];
  const workspace = await openWorkspace({ cwd, env: {}, watch: true, onProblem: (problem) => problems.push(problem) });
  opened.push(workspace);
  return {
    workspace,
    problems,
    write: (text) => writeFile(path, text),
    remove: () => rm(path),
    async events(type) {
      const { ledger } = workspace.quartermaster;
      const found = await ledger.read({ session: "system" });
      return found.flatMap((event) => (event.type === type ? [event.data as Record<string, unknown>] : []));
    },
  };
}

const DENYING = "policy: { denied: [file__read] }\n";

describe("a reload", () => {
  test.each([
    ["nothing", ""],
    ["spaces", " \n\t\n"],
    ["a comment", "# nothing\n"],
    ["null", "~\n"],
    ["the word null", "null # for now\n"],
    ["a document mark", "---\n"],
    ["a document mark and a comment", "---\n# policy: { denied: [file__read] }\n...\n"],
    ["a byte order mark", "\uFEFF"],
    ["two documents", `${DENYING}---\n{}\n`],
    ["the beginning of a section", "policy:\n"],
    ["half a list", "policy: { denied: [file"],
  ])("keeps the configuration in force when the file becomes %s", async (_what, text) => {
    const { workspace, problems, write, events } = await openWatched(DENYING);

    await write(text);

    await vi.waitFor(async () => expect(await events("config.rejected")).toHaveLength(1), WAIT);
    expect(problems).toEqual([expect.stringMatching(/^the change was rejected: /)]);
    expect(await workspace.quartermaster.invoke("file__read", { path: "a.txt" })).toMatchObject({
      error: { code: "unknown_action" },
    });
  });

  test("keeps the configuration in force when the file is deleted", async () => {
    const { workspace, remove, events } = await openWatched(DENYING);

    await remove();

    await vi.waitFor(async () => expect(await events("config.rejected")).toHaveLength(1), WAIT);
    expect(workspace.quartermaster.names()).not.toContain("file__read");
  });

  test("records and prints each setting and each decision that is less strict", async () => {
    const { problems, write, events } = await openWatched(
      `
policy:
  denied: [file__read]
  rules:
    - { name: no-writing, rule: "tool.effect == 'write'", effect: hide }
    - { name: no-secrets, rule: "args.path.startsWith('secret')", effect: deny }
  budgets: { turn: { calls: 5 }, session: { bytes: 100 } }
actors:
  default: { tools: ["file__*"] }
approvals: { categories: { tool: true }, approvers: { ada: { roles: [admin] } } }
providers: { file: { read_only: false } }
`,
    );

    await write(`
policy:
  rules:
    - { name: no-writing, rule: "tool.effect == 'write'", effect: deny }
  budgets: { turn: { calls: 50 } }
actors:
  default: { tools: ["file__*", "tool__*"] }
  root: { tools: ["*"] }
providers: { file: { read_only: false } }
`);

    const expected = [
      'policy.denied no longer lists "file__read"',
      'the rule "no-writing" has the effect deny instead of hide',
      'the rule "no-secrets" (deny) is gone',
      "policy.budgets.turn.calls rose from 5 to 50",
      "policy.budgets.session.bytes is gone, so there is no limit",
      'actors.default.tools also lists "tool__*"',
      "actors.root is new",
      "approvals.categories.tool no longer asks",
      "approvals.approvers is empty, so everyone at this machine's command line has every role",
      "file__edit was hidden for the actor default and is denied",
      "file__read was hidden for the actor default and is allowed",
      "file__write was hidden for the actor default and is denied",
    ];
    await vi.waitFor(async () => expect(await events("config.loaded")).toHaveLength(2), WAIT);
    const [, reloaded] = await events("config.loaded");
    expect(reloaded?.loosened).toEqual(expect.arrayContaining(expected));
    expect(problems.map((each) => each.replace(/^.* is less strict: /, ""))).toEqual(expect.arrayContaining(expected));
  });

  test("reports nothing when the policy becomes stricter or stays the same", async () => {
    const { problems, write, events } = await openWatched(
      `providers: { file: { read_only: false } }\npolicy: { rules: [{ name: old-name, rule: "tool.effect == 'write'", effect: deny }] }\n`,
    );

    await write(
      `providers: { file: { read_only: false } }\npolicy: { denied: [file__read], rules: [{ name: new-name, rule: "tool.effect == 'write'", effect: hide }], budgets: { turn: { calls: 1 } } }\n`,
    );

    await vi.waitFor(async () => expect(await events("config.loaded")).toHaveLength(2), WAIT);
    expect((await events("config.loaded"))[1]).not.toHaveProperty("loosened");
    expect(problems).toEqual([]);
  });

  test("reports an explicit return to the defaults", async () => {
    const { problems, write, events } = await openWatched(DENYING);

    await write("{}\n");

    await vi.waitFor(async () => expect(await events("config.loaded")).toHaveLength(2), WAIT);
    expect(problems).toContainEqual(
      expect.stringMatching(/is less strict: policy\.denied no longer lists "file__read"$/),
    );
  });
});

test("starting with an empty file uses the defaults and reports it", async () => {
  const { workspace, problems } = await openWatched("# nothing yet\n");

  expect(workspace.quartermaster.names()).toContain("file__read");
  expect(problems).toEqual([expect.stringMatching(/has no content: the defaults allow every action$/)]);
});
