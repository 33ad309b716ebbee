import { spawnSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { cleanUp, createTestFolder, plainEnvironment, qm, qmCommand, testWorkspace } from "../testing.ts";

afterEach(cleanUp);

test.for(["bash", "zsh", "fish"])("prints a %s script that the shell accepts", async (shell, context) => {
  const cwd = await createTestFolder();
  await writeFile(join(cwd, "script"), (await qm(cwd, ["completion", shell])).out);
  if (spawnSync(shell, ["--version"]).error !== undefined) context.skip(`${shell} is not installed`);

  const read = spawnSync(shell, ["-n", "script"], { cwd, encoding: "utf8" });

  expect(read).toMatchObject({ status: 0, stderr: "" });
});

test("completes in bash", async () => {
  const cwd = await testWorkspace();
  const { out } = await qm(cwd, ["completion", "bash"]);
  const script = `qm() { ${qmCommand.map((word) => `"${word}"`).join(" ")} "$@"; }
${out}
COMP_WORDS=(qm invoke file__r); COMP_CWORD=2; _qm; printf '%s\\n' "\${COMPREPLY[@]}"`;

  const ran = spawnSync("bash", ["-c", script], { cwd, encoding: "utf8", env: plainEnvironment() });

  expect(ran).toMatchObject({ stdout: "file__read\n", stderr: "" });
});

test.each([
  [["li"], ["list"]],
  [
    ["events", ""],
    ["verify", "prune"],
  ],
  [["events", "--fo"], ["--follow"]],
  [["invoke", "--ti"], ["--timeout"]],
  [["invoke", "--js"], ["--json"]],
  [
    ["--actor", ""],
    ["default", "reader", "nobody"],
  ],
  [
    ["--actor", "reader", "invoke", ""],
    ["file__list", "file__read"],
  ],
  [["explain", "--actor", "reader", "file__w"], ["file__write"]],
  [
    ["list", ""],
    ["approval", "file", "infospace", "mcp"],
  ],
  [["invoke", "file__read", ""], []],
  [
    ["events", "--session", ""],
    ["system", "local"],
  ],
  [
    ["events", "--type", "call."],
    ["call.decided", "call.ended", "call.received", "call.resumed", "call.retried", "call.suspended"],
  ],
  [
    ["completion", ""],
    ["bash", "zsh", "fish"],
  ],
  [
    ["help", "e"],
    ["explain", "events", "eval", "embeddings"],
  ],
  [
    ["help", "events", ""],
    ["verify", "prune"],
  ],
  [["help", "nope", ""], []],
  [["nonsense", ""], []],
  [["--config", ""], []],
  [["--config", "nowhere.yaml", "invoke", ""], []],
  [["--actor", "nobady", "invoke", ""], []],
])("%j: %j", async (words, expected) => {
  const cwd = await testWorkspace();
  await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}']);
  await qm(cwd, ["invoke", "file__read", '{"path":"a.txt"}', "--session", "$(touch pwned) *"]);

  const ran = await qm(cwd, ["complete", "--", ...words]);

  expect(
    ran.out
      .split("\n")
      .filter(Boolean)
      .map((line) => line.split("\t")[0]),
  ).toEqual(expected);
  expect(ran).toMatchObject({ code: 0, err: "" });
});
