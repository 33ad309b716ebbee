import { describe, expect, test } from "vitest";
import { createBubblewrapSandbox } from "./bubblewrap-sandbox.ts";

const host = {
  nodePath: process.execPath,
  searchPath: process.env.PATH ?? "",
  platform: process.platform,
  pid: process.pid,
  uid: process.getuid?.(),
};
const parts = { version: "1", passed: { read: async () => undefined, write: async () => {} }, protect: () => [] };
const problem = await createBubblewrapSandbox({ ...parts, host }).findProblem();
const isMissing = problem?.includes("not installed") === true || process.platform !== "linux";
if (isMissing) console.warn(`SKIPPED: the sandbox is not tested: ${problem}`);

describe.skipIf(isMissing)("the self-test of the sandbox", () => {
  test("passes where bubblewrap works", () => {
    expect(problem).toBeUndefined();
  });

  test("says which programs are missing and refuses to prepare a command", async () => {
    const sandbox = createBubblewrapSandbox({ ...parts, host: { ...host, platform: "darwin" } });
    expect(await sandbox.findProblem()).toBe("sandboxes need Linux");
    const settings = { network: false, read: [], write: [], memoryMb: 64, processes: 8, fileMb: 1 };
    const request = { settings, command: ["true"], cwd: "/", env: {}, inputFd: 3 };
    await expect(sandbox.prepare(request)).rejects.toThrow("was not started");
  });
});
