import { describe, expect, test } from "vitest";
import { findMissingSandbox } from "../../test/support/sandbox.ts";
import { createBubblewrapSandbox } from "./bubblewrap-sandbox.ts";

const host = {
  nodePath: process.execPath,
  searchPath: process.env.PATH ?? "",
  platform: process.platform,
  pid: process.pid,
  uid: process.getuid?.(),
};
const passed = { has: async () => false, add: async () => {}, remove: async () => {} };
const parts = { version: "1", passed, protect: () => [] };

describe.skipIf(findMissingSandbox("the self-test of the sandbox") !== undefined)(
  "the self-test of the sandbox",
  () => {
    test("passes where bubblewrap works", async () => {
      expect(await createBubblewrapSandbox({ ...parts, host }).findProblem()).toBeUndefined();
    });

    test("says which programs are missing and refuses to prepare a command", async () => {
      const sandbox = createBubblewrapSandbox({ ...parts, host: { ...host, platform: "darwin" } });
      expect(await sandbox.findProblem()).toBe("sandboxes need Linux");
      const settings = { network: false, read: [], write: [], memoryMb: 64, processes: 8, fileMb: 1 };
      const request = { settings, command: ["true"], cwd: "/", env: {}, streams: [] };
      await expect(sandbox.prepare(request)).rejects.toThrow("was not started");
    });
  },
);
