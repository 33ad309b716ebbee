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

/** An installer with real manifests and the given writer. */
async function createTestInstaller(writer: Partial<ServerConfigWriter>, given: Partial<ServerInstallerOptions> = {}) {
  const manifests = await memoryStore();
  let specs: readonly ServerSpec[] = [];
  const { service } = await openTestManifests(manifests, []);
  const problems: string[] = [];
  const installer = createServerInstaller({
    hub: { probe: async () => echoing },
    manifests: service,
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
      service.use(next);
    },
    note: () => {},
    ...given,
  });
  return { installer, manifests, service, problems, specs: () => specs };
}

test("stores the accepted offer before the server is written to the configuration", async () => {
  let kept: unknown;
  const { installer, manifests } = await createTestInstaller({
    async add(name, _entry, beforeWriting) {
      await beforeWriting();
      kept = await manifests.read(name);
    },
  });

  await installer.install(plan, "ann");

  expect(kept).toMatchObject({ manifest: { offer: { tools: [{ name: "echo" }] } } });
});

test("forgets the offer if writing fails, and does nothing if the name is taken", async () => {
  const full = new QmError("action_failed", "the disk is full");
  const taken = new QmError("conflict", "there is one already");
  const failing = await createTestInstaller({
    async add(_name, _entry, beforeWriting) {
      await beforeWriting();
      throw full;
    },
  });
  const late = await createTestInstaller({ add: () => Promise.reject(taken) });
  await late.service.learn(spec("fresh"), echoing);

  await expect(failing.installer.install(plan, "ann")).rejects.toBe(full);
  await expect(late.installer.install(plan, "ann")).rejects.toBe(taken);

  expect(await failing.manifests.read("fresh")).toBeUndefined();
  expect(failing.specs()).toEqual([]);
  expect(await late.manifests.read("fresh")).toBeDefined();
});

test("saves a server that needs a login, with a hint", async () => {
  const probe = () => Promise.reject(new QmError("needs_login", "log in first"));
  const { installer, problems, specs } = await createTestInstaller({}, { hub: { probe } });

  expect(await installer.install(plan, "ann")).toMatchObject({
    needsLogin: true,
    actions: ["mcp__fresh__connect"],
    hint: expect.stringContaining("logged in"),
  });

  expect(specs().map(({ name }) => name)).toEqual(["fresh"]);
  expect(problems).toEqual(["fresh needs_login"]);
});

test("goes on with a removal when a step fails, and reports it", async () => {
  const secrets = createMemorySecrets();
  const broken = { ...secrets, delete: () => Promise.reject(new QmError("store_failed", "the secrets are broken")) };
  const launch = { kind: "http" as const, url: "https://example.com/mcp", headers: { A: `\${secret:A}` } };
  const remove = async (name: string) => ({ spec: spec(name, { launch }), secretsInUse: [] });
  const { installer, manifests, problems, specs } = await createTestInstaller({ remove }, { secrets: broken });
  await installer.install(plan, "ann");

  await expect(installer.drop("fresh", "ann", { clearSecrets: true })).rejects.toMatchObject({
    code: "store_failed",
    message: expect.stringMatching(/^fresh is removed, but not everything of it: the secrets are broken/),
  });

  expect(specs()).toEqual([]);
  expect(await manifests.read("fresh")).toBeUndefined();
  expect(problems).toEqual(["fresh cleared"]);
});
