import { expect, test } from "vitest";
import { memoryStore, offer, openTestManifests, spec, tool } from "../../../test/support/manifests.ts";
import { createMemorySecrets } from "../../../test/support/mcp-hub.ts";
import { QmError } from "../../core/errors.ts";
import type { InstallPlan } from "../install/install-plan.ts";
import type { ServerSpec } from "../server-spec.ts";
import { createServerInstaller, type ServerConfigWriter, type ServerInstallerOptions } from "./server-installer.ts";

const plan: InstallPlan = {
  name: "fresh",
  launch: { kind: "stdio", command: "node", args: ["fresh.mjs"], env: {} },
  source: "local",
  command: "node fresh.mjs",
  hosts: [],
  missing: [],
  warnings: [],
  hash: "0".repeat(64),
};
const echoing = offer(tool("echo"));

/** A desk over a real book, with a writer as the test wants it. */
async function deskWith(writer: Partial<ServerConfigWriter>, given: Partial<ServerInstallerOptions> = {}) {
  const manifests = await memoryStore();
  let specs: readonly ServerSpec[] = [];
  const { book } = await openTestManifests(manifests, []);
  const problems: string[] = [];
  const desk = createServerInstaller({
    hub: { probe: async () => echoing },
    manifests: book,
    registry: undefined as never,
    plans: async () => plan,
    unpack: async () => {},
    writer: {
      add: (_name, _entry, beforeWriting) => beforeWriting(),
      remove: async (name) => ({ spec: spec(name), secretsInUse: [] }),
      parseEntry: (name) => spec(name, { launch: plan.launch }),
      ...writer,
    },
    secrets: createMemorySecrets(),
    problems: {
      set: async (server, { state }) => void problems.push(`${server} ${state}`),
      clear: async (server) => void problems.push(`${server} cleared`),
      all: async () => new Map(),
    },
    specs: () => specs,
    configure: async (next) => {
      specs = next;
      book.use(next);
    },
    note: () => {},
    ...given,
  });
  return { desk, manifests, book, problems, specs: () => specs };
}

test("what was agreed to is kept before the server is written down: whoever watches finds it", async () => {
  let kept: unknown;
  const { desk, manifests } = await deskWith({
    async add(name, _entry, beforeWriting) {
      await beforeWriting();
      kept = await manifests.read(name);
    },
  });

  await desk.install(plan, "ann");

  expect(kept).toMatchObject({ manifest: { offer: { tools: [{ name: "echo" }] } } });
});

test("what could not be written down is forgotten, and a name that is taken harms nothing", async () => {
  const full = new QmError("action_failed", "the disk is full");
  const taken = new QmError("conflict", "there is one already");
  const failing = await deskWith({
    async add(_name, _entry, beforeWriting) {
      await beforeWriting();
      throw full;
    },
  });
  const late = await deskWith({ add: () => Promise.reject(taken) });
  await late.book.learn(spec("fresh"), echoing);

  await expect(failing.desk.install(plan, "ann")).rejects.toBe(full);
  await expect(late.desk.install(plan, "ann")).rejects.toBe(taken);

  expect(await failing.manifests.read("fresh")).toBeUndefined();
  expect(failing.specs()).toEqual([]);
  expect(await late.manifests.read("fresh")).toBeDefined();
});

test("a server that wants a login is written down, with how to log in", async () => {
  const probe = () => Promise.reject(new QmError("needs_login", "log in first"));
  const { desk, problems, specs } = await deskWith({}, { hub: { probe } });

  expect(await desk.install(plan, "ann")).toMatchObject({
    needsLogin: true,
    actions: ["mcp__fresh__connect"],
    hint: expect.stringContaining("qm servers login fresh"),
  });

  expect(specs().map(({ name }) => name)).toEqual(["fresh"]);
  expect(problems).toEqual(["fresh needs_login"]);
});

test("a removal goes on when a part of it fails, and says what was left", async () => {
  const secrets = createMemorySecrets();
  const broken = { ...secrets, delete: () => Promise.reject(new QmError("store_failed", "the secrets are broken")) };
  const launch = { kind: "http" as const, url: "https://example.com/mcp", headers: { A: `\${secret:A}` } };
  const remove = async (name: string) => ({ spec: spec(name, { launch }), secretsInUse: [] });
  const { desk, manifests, problems, specs } = await deskWith({ remove }, { secrets: broken });
  await desk.install(plan, "ann");

  await expect(desk.drop("fresh", "ann", { clearSecrets: true })).rejects.toMatchObject({
    code: "store_failed",
    message: expect.stringMatching(/^fresh is removed, but not everything of it: the secrets are broken/),
  });

  expect(specs()).toEqual([]);
  expect(await manifests.read("fresh")).toBeUndefined();
  expect(problems).toEqual(["fresh cleared"]);
});
