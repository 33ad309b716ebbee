import { mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { QmError } from "../core/errors.ts";
import { guardSchema } from "../core/schema-guard.ts";
import { openWorkspace, type Workspace, type WorkspaceOptions } from "./workspace.ts";

const made: string[] = [];
const opened: Workspace[] = [];

afterEach(async () => {
  for (const workspace of opened.splice(0)) await workspace.close();
  for (const folder of made.splice(0)) await rm(folder, { recursive: true, force: true });
});

async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await realpath(await mkdtemp(join(tmpdir(), "qm-workspace-")));
  made.push(folder);
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(folder, name, ".."), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

async function open(cwd: string, options: Partial<WorkspaceOptions> = {}): Promise<Workspace> {
  const workspace = await openWorkspace({ cwd, env: {}, ...options });
  opened.push(workspace);
  return workspace;
}

/** Lets actions change files, which they may not by default. */
const WRITING = "providers: { file: { read_only: false } }\n";

const eventsOf = async ({ quartermaster }: Workspace, type: string) => {
  await quartermaster.ledger.flush();
  return (await quartermaster.ledger.read({ type })).map((event) => event.data);
};

// The catalog does not read the schemas of our own actions, so that they are converted only where they are used.
test("has only actions with safe schemas", async () => {
  const config = `
providers:
  file: { read_only: false }
  source: { enabled: true }
  web: { enabled: true, search: { kind: searxng, url: "http://localhost" } }
  exec: { enabled: true, unisolated: true }
  memory: { enabled: true }
  rag: { enabled: true }
peers: { other: { url: "http://localhost:1" } }
actors: { default: { tools: ["*"] }, helper: { tools: ["*"], exposed: true } }
policy: { rules: [{ name: ask, rule: "args.path == 'x'", effect: ask }] }
`;
  const { quartermaster } = await open(await folderWith({ "quartermaster.yaml": config }), { purpose: "looking" });
  const described = quartermaster.inventory().map(({ name }) => quartermaster.describe(name));

  expect(described.length).toBeGreaterThan(60);
  for (const { input_schema, output_schema = {} } of described) {
    expect(guardSchema(input_schema, "arguments")).toEqual(input_schema);
    expect(guardSchema(output_schema, "result")).toEqual(output_schema);
  }
});

test("works without a file, in the folder it is opened in", async () => {
  const folder = await folderWith({ "README.md": "hello" });

  const workspace = await open(folder);
  const outcome = await workspace.quartermaster.invoke("file__read", { path: "README.md" });

  expect(outcome).toMatchObject({ status: "done", data: { content: "hello" } });
  expect(workspace.configPath).toBeUndefined();
  expect(workspace.storePath).toBe(join(folder, ".quartermaster/quartermaster.db"));
  expect(await eventsOf(workspace, "config.loaded")).toEqual([
    { path: "defaults", policyVersion: workspace.quartermaster.policyVersion },
  ]);
});

test("applies the file, with paths relative to it", async () => {
  const folder = await folderWith({
    "quartermaster.yaml": `
store: { path: "kept/\${env:STAGE}.db" }
mcp: { install: false }
infospace: { enabled: false }
providers: { file: { root: docs, read_only: true } }
policy:
  denied: [file__glob]
  rules: [{ name: no-lists, rule: "tool.name == 'file__list'", effect: deny, reason: No lists. }]
  budgets: { session: { calls: 2 } }
actors:
  default: { tools: ["*"] }
  reader: { tools: [file__read], scope: low, attributes: { level: 3 } }
limits: { value_chars: 256 }
ledger: { redact: [nickname] }
secrets: ["\${env:TOKEN}"]
`,
    "docs/a.txt": "token-12345 is in here",
    "below/deeper/x": "",
  });

  const workspace = await open(join(folder, "below/deeper"), { env: { STAGE: "test", TOKEN: "token-12345" } });
  const { quartermaster } = workspace;

  expect(workspace.configPath).toBe(join(folder, "quartermaster.yaml"));
  expect(workspace.storePath).toBe(join(folder, "kept/test.db"));
  expect(quartermaster.list().items.map((item) => item.qualified_name)).toEqual([
    "file__grep",
    "file__list",
    "file__read",
    "file__watch",
    "skill__extract",
    "skill__summarize",
  ]);
  expect(quartermaster.list({}, { actor: "reader" }).total).toBe(1);
  expect(await quartermaster.invoke("file__list", {})).toMatchObject({ status: "refused", reason: "No lists." });
  const read = await quartermaster.invoke("file__read", { path: "a.txt" });
  expect(read).toMatchObject({ status: "done", data: { content: "token-12345 is in here" } });
  await quartermaster.invoke("file__read", { path: "a.txt", nickname: "bob" });
  await quartermaster.invoke("file__read", { path: "a.txt" });
  expect(await quartermaster.invoke("file__read", { path: "a.txt" })).toMatchObject({
    error: { code: "budget_exceeded" },
  });
  const written = JSON.stringify(await quartermaster.ledger.read({}));
  expect(written).not.toContain("token-12345");
  expect(written).not.toContain("bob");
});

test("redacts the variables that a search engine and programs get", async () => {
  const folder = await folderWith({
    "quartermaster.yaml": `
providers:
  web: { search: { kind: searxng, url: "http://localhost/\${env:PATH_KEY}", token: "\${env:TOKEN}" } }
  exec: { env: { KEY: "\${env:PROGRAM_KEY}" } }
`,
    "a.txt": "token-1111 path-2222 program-3333",
  });
  const env = { TOKEN: "token-1111", PATH_KEY: "path-2222", PROGRAM_KEY: "program-3333" };

  const { quartermaster } = await open(folder, { env });
  await quartermaster.invoke("file__grep", { pattern: "token-1111|path-2222|program-3333" });

  const written = JSON.stringify(await quartermaster.ledger.read({}));
  expect(written).toContain("file__grep");
  expect(written).not.toMatch(/token-1111|path-2222|program-3333/);
});

test("rejects an unencrypted registry when it opens", async () => {
  const folder = await folderWith({ "quartermaster.yaml": "mcp: { registry: http://registry.example }" });

  await expect(open(folder)).rejects.toThrow(/mcp\.registry/);
});

test("reports every problem of a wrong file at once", async () => {
  const folder = await folderWith({
    "quartermaster.yaml": "policy:\n  denyed: []\n  rules: [{ name: a, rule: 'tool.', effect: hide }]\n",
  });

  const thrown = await openWorkspace({ cwd: folder, env: {} }).catch((error: unknown) => error);

  expect(thrown).toBeInstanceOf(QmError);
  expect(thrown).toMatchObject({ code: "invalid_config" });
  expect(String(thrown)).toContain("did you mean denied?");
  expect(String(thrown)).toContain("policy.rules[0].rule");
});

test("warns of an actor that lists an unknown action, and continues", async () => {
  const folder = await folderWith({ "quartermaster.yaml": "actors: { reader: { tools: [file__raed] } }" });
  const problems: string[] = [];

  const workspace = await open(folder, { onProblem: (problem) => problems.push(problem) });

  expect(problems).toEqual([expect.stringContaining("did you mean file__read?")]);
  expect(workspace.quartermaster.list().total).toBeGreaterThan(0);
});

test("creates no file when it is opened for looking or for the ledger", async () => {
  const folder = await folderWith({ "README.md": "hello" });

  const looking = await open(folder, { purpose: "looking" });
  const ledger = await open(folder, { purpose: "ledger" });

  expect(looking.quartermaster.list().total).toBeGreaterThan(0);
  expect(await ledger.quartermaster.ledger.read({})).toEqual([]);
  expect(await readdir(folder)).toEqual(["README.md"]);
});

test("reads an existing ledger without writing to it", async () => {
  const folder = await folderWith({ "README.md": "hello" });
  const writer = await open(folder);
  await writer.quartermaster.invoke("file__read", { path: "README.md" });
  const before = await writer.quartermaster.ledger.read({});

  const reader = await open(folder, { purpose: "ledger" });

  expect(await reader.quartermaster.ledger.read({})).toEqual(before);
  await reader.close();
  opened.pop();
  expect(await writer.quartermaster.ledger.read({})).toEqual(before);
});

test("a change of the file changes the next decision", async () => {
  const folder = await folderWith({ "quartermaster.yaml": "{}", "a.txt": "hello" });
  const workspace = await open(folder, { watch: true });
  const { quartermaster } = workspace;
  const read = () => quartermaster.invoke("file__read", { path: "a.txt" });
  expect(await read()).toMatchObject({ status: "done" });

  await writeFile(join(folder, "quartermaster.yaml"), "policy: { denied: [file__read] }");

  await vi.waitFor(async () => expect(await read()).toMatchObject({ error: { code: "unknown_action" } }), 10_000);
  expect(workspace.config.policy.denied).toEqual(["file__read"]);
  expect(await eventsOf(workspace, "config.loaded")).toHaveLength(2);
});

test("a change of an actor acts at once, and a new model for it needs a restart", async () => {
  const write = (text: string) => writeFile(join(folder, "quartermaster.yaml"), text);
  const folder = await folderWith({ "quartermaster.yaml": `actors: { a: { tools: ["tag:read"] } }` });
  const problems: string[] = [];
  const { quartermaster } = await open(folder, { watch: true, onProblem: (problem) => problems.push(problem) });
  const version = quartermaster.policyVersion;
  const use = async () => (await quartermaster.invoke("file__list", {}, { caller: { actor: "a" } })).status;

  await write(`
models: { fast: { provider: anthropic, model: m } }
actors: { a: { tools: ["tag:read"], model: fast, instructions: Be brief. } }`);
  await vi.waitFor(() => expect(problems.join()).toContain("the change of models needs a restart"), 10_000);
  expect(quartermaster.policyVersion).toBe(version);

  await write(`actors: { a: { tools: ["tag:read"], budgets: { session: { calls: 1 } } } }`);
  await vi.waitFor(() => expect(quartermaster.policyVersion).not.toBe(version), 10_000);
  expect([await use(), await use()]).toEqual(["done", "refused"]);
});

test("a change of the file closes and opens a gate, and explain names it", async () => {
  const gate = (more: string) =>
    `providers: { file: { read_only: false } }\npolicy: { gates: { night: { guards: ["file__w*", file__delete], ${more} } } }`;
  const folder = await folderWith({ "quartermaster.yaml": gate("open: true") });
  const problems: string[] = [];
  const workspace = await open(folder, { watch: true, onProblem: (problem) => problems.push(problem) });
  const { quartermaster } = workspace;
  const write = async (text: string) => writeFile(join(folder, "quartermaster.yaml"), text);
  const explain = (name: string) => quartermaster.explain(name).because;
  expect(explain("file__write")).toBeUndefined();
  const version = quartermaster.policyVersion;

  // A gate that does not say whether it is open is closed.
  await write(gate("reason: backups run"));
  const rule = "night: policy.gates.night is closed: backups run";
  const because = { layer: "gates", rule, setting: "policy.gates.night.open" };
  await vi.waitFor(() => expect(explain("file__write")).toEqual(because), 10_000);
  expect(explain("file__delete")).toEqual(because);
  expect(explain("file__read")).toBeUndefined();
  expect(await quartermaster.invoke("file__write", {})).toMatchObject({ error: { code: "unknown_action" } });
  expect(quartermaster.policyVersion).not.toBe(version);

  await write(gate("open: maybe"));
  await vi.waitFor(() => expect(problems.join()).toContain("policy.gates.night.open"), 10_000);
  expect(explain("file__write")).toEqual(because);

  await write(gate("open: true"));
  await vi.waitFor(() => expect(explain("file__write")).toBeUndefined(), 10_000);
  await vi.waitFor(() => expect(problems.join()).toContain("policy.gates.night is open"), 10_000);
});

test("warns of a closed gate that guards nothing", async () => {
  const folder = await folderWith({ "quartermaster.yaml": "policy: { gates: { night: { guards: [file__raed] } } }" });

  const { quartermaster } = await open(folder);

  expect(quartermaster.policyWarnings()).toEqual([
    'the gate night lists "file__raed", which no action fits; did you mean file__read?',
  ]);
});

test("warns of names in a hot list that no action has", async () => {
  const seeds = "[file__raed, file__read, file__write, tool__later, later, mcp__new__x]";
  const servers = "servers: { new: { command: 'false' } }";
  const folder = await folderWith({
    "quartermaster.yaml": `surface: { hot_list_seed: ${seeds} }\n${servers}`,
  });
  const problems: string[] = [];

  await open(folder, { onProblem: (problem) => problems.push(problem) });

  expect(problems).toEqual([
    'surface.hot_list_seed lists "file__raed", which no action fits; did you mean file__read?',
  ]);
});

test("a change of the file replaces and withdraws a provider", async () => {
  const folder = await folderWith({
    "quartermaster.yaml": "mcp: { install: false }\ninfospace: { enabled: false }",
    "a.txt": "one",
    "docs/a.txt": "two",
  });
  const workspace = await open(folder, { watch: true });
  const { quartermaster } = workspace;
  const config = join(folder, "quartermaster.yaml");

  await writeFile(
    config,
    "mcp: { install: false }\ninfospace: { enabled: false }\nproviders: { file: { root: docs } }",
  );
  await vi.waitFor(
    async () =>
      expect(await quartermaster.invoke("file__read", { path: "a.txt" })).toMatchObject({ data: { content: "two" } }),
    10_000,
  );

  await writeFile(
    config,
    "mcp: { install: false }\ninfospace: { enabled: false }\nproviders: { file: { enabled: false } }",
  );
  await vi.waitFor(() => expect(quartermaster.list({ category: ["file"] }).total).toBe(0), 10_000);
});

test("keeps the old policy after an invalid change, and reports and records that", async () => {
  const folder = await folderWith({ "quartermaster.yaml": `${WRITING}policy: { denied: [file__write] }` });
  const problems: string[] = [];
  const workspace = await open(folder, { watch: true, onProblem: (problem) => problems.push(problem) });
  const version = workspace.quartermaster.policyVersion;

  await writeFile(join(folder, "quartermaster.yaml"), `${WRITING}policy: { denied: [file__write], alowed: [] }`);
  await vi.waitFor(() => expect(problems).toHaveLength(1), 10_000);

  expect(problems[0]).toContain("did you mean allowed?");
  expect(workspace.quartermaster.policyVersion).toBe(version);
  expect(workspace.quartermaster.explain("file__write").visible).toBe(false);
  expect(await eventsOf(workspace, "config.rejected")).toHaveLength(1);
  expect(await eventsOf(workspace, "config.loaded")).toHaveLength(1);
});

test("keeps the providers when the policy of a change is rejected", async () => {
  const folder = await folderWith({ "quartermaster.yaml": WRITING });
  const problems: string[] = [];
  const workspace = await open(folder, { watch: true, onProblem: (problem) => problems.push(problem) });

  await writeFile(
    join(folder, "quartermaster.yaml"),
    "providers: { file: { read_only: true } }\nactors: { writer: { tools: [file__write] } }",
  );
  await vi.waitFor(() => expect(problems).toHaveLength(1), 10_000);

  expect(problems[0]).toContain("file__write");
  expect(workspace.quartermaster.explain("file__write")).toMatchObject({ exists: true, visible: true });
  expect(workspace.config.providers.file.readOnly).toBe(false);
});

test("reports which changes need a restart", async () => {
  const folder = await folderWith({ "quartermaster.yaml": "{}" });
  const problems: string[] = [];
  await open(folder, { watch: true, onProblem: (problem) => problems.push(problem) });

  await writeFile(join(folder, "quartermaster.yaml"), "limits: { timeout_ms: 5 }\nsurface: { kind: flat }");
  await vi.waitFor(() => expect(problems).toHaveLength(1), 10_000);

  expect(problems[0]).toContain("the change of limits, surface needs a restart");
});

const KEPT = {
  status: "failed",
  error: { code: "path_refused", error: expect.stringContaining("protected by Quartermaster") },
};

test("file actions reach neither the policy nor the ledger, and stay bound by the policy", async () => {
  const policy = `${WRITING}policy: { denied: [file__delete] }`;
  const folder = await folderWith({ "quartermaster.yaml": policy, "a.txt": "hello" });
  const { quartermaster } = await open(folder, { watch: true });
  const { invoke } = quartermaster;
  const store = ".quartermaster/quartermaster.db";

  for (const path of ["quartermaster.yaml", `${folder}/quartermaster.yaml`, store, `${store}-wal`, `${store}-shm`]) {
    expect(await invoke("file__write", { path, content: "{}" })).toMatchObject(KEPT);
    expect(await invoke("file__edit", { path, old_string: "denied", new_string: "allowed" })).toMatchObject(KEPT);
    expect(await invoke("file__read", { path })).toMatchObject(KEPT);
    expect(await invoke("file__grep", { path, pattern: "." })).toMatchObject(KEPT);
  }
  expect(await invoke("file__list", { path: ".quartermaster" })).toMatchObject(KEPT);
  expect(await invoke("file__list", {})).toMatchObject({ data: { entries: [{ path: "a.txt" }], total: 1 } });

  expect(await readFile(join(folder, "quartermaster.yaml"), "utf8")).toBe(policy);
  expect(await invoke("file__delete", { path: "a.txt" })).toMatchObject({ error: { code: "unknown_action" } });
  expect(await quartermaster.ledger.verify()).toMatchObject({ broken: [] });
  const later = await open(folder);
  expect(later.quartermaster.explain("file__delete").visible).toBe(false);
});

test("no file action creates a configuration, or a nearer one", async () => {
  const none = await folderWith({ "a.txt": "" });
  const above = await folderWith({ "quartermaster.yaml": WRITING, "below/deeper/a.txt": "" });

  const without = await open(none);
  const within = await open(join(above, "below/deeper"));
  const write = ({ quartermaster }: Workspace, path: string) =>
    quartermaster.invoke("file__write", { path, content: "{}" });

  expect(await write(without, "quartermaster.yaml")).toMatchObject({ error: { code: "unknown_action" } });
  expect(await write(within, "below/Quartermaster.yaml")).toMatchObject(KEPT);
  expect(await write(within, "below/quartermaster.yaml")).toMatchObject(KEPT);
  expect(await write(within, "below/deeper/quartermaster.yaml")).toMatchObject(KEPT);
  expect(await readdir(none)).toEqual([".quartermaster", "a.txt"]);
  expect(await readdir(join(above, "below/deeper"))).toEqual(["a.txt"]);
});

test("protects a store among other files with its companions, also through links", async () => {
  const folder = await folderWith({
    "staging.yaml": `${WRITING}store: { path: data/link.db }`,
    "data/other.txt": "free",
    "elsewhere/real.db": "",
  });
  await symlink("../elsewhere/real.db", join(folder, "data/link.db"));
  const { quartermaster } = await open(folder, { configPath: "staging.yaml" });
  const write = (path: string) => quartermaster.invoke("file__write", { path, content: "mine" });

  for (const path of ["staging.yaml", "quartermaster.yaml"]) expect(await write(path)).toMatchObject(KEPT);
  for (const file of ["data/link.db", "elsewhere/real.db"])
    for (const end of ["", "-wal", "-shm", "-journal"]) expect(await write(file + end)).toMatchObject(KEPT);
  expect(await write("data/other.txt")).toMatchObject({ status: "done" });
  expect(await quartermaster.ledger.verify()).toMatchObject({ broken: [] });
});

test("protects the store of the next start as well as the present one", async () => {
  const folder = await folderWith({ "quartermaster.yaml": `${WRITING}store: { path: one.db }` });
  const { quartermaster } = await open(folder, { watch: true });
  const write = (path: string) => quartermaster.invoke("file__write", { path, content: "mine" });
  expect(await write("two.db-wal")).toMatchObject({ status: "done" });

  await writeFile(join(folder, "quartermaster.yaml"), `${WRITING}store: { path: two.db }`);

  await vi.waitFor(async () => expect(await write("two.db-wal")).toMatchObject(KEPT), 10_000);
  expect(await write("one.db")).toMatchObject(KEPT);
});

test("rejects a root in the folder of the store, at the start and as a change", async () => {
  const wrong = "providers: { file: { root: .quartermaster } }\npolicy: { denied: [file__read] }";
  const folder = await folderWith({ "quartermaster.yaml": "{}", "a.txt": "hello" });
  const problems: string[] = [];
  const { quartermaster } = await open(folder, { watch: true, onProblem: (problem) => problems.push(problem) });

  await writeFile(join(folder, "quartermaster.yaml"), wrong);
  await vi.waitFor(() => expect(problems).toHaveLength(1), 10_000);

  expect(problems[0]).toContain("is inside a path protected by Quartermaster");
  expect(await quartermaster.invoke("file__read", { path: "a.txt" })).toMatchObject({ data: { content: "hello" } });
  await expect(openWorkspace({ cwd: folder, env: {} })).rejects.toMatchObject({ code: "invalid_config" });
});

test("shows an actor's own surface, and the general one to all others", async () => {
  const folder = await folderWith({
    "quartermaster.yaml": `
surface: { kind: auto, token_budget: 1 }
actors:
  flat: { tools: ["*"], surface: { kind: flat } }
  roomy: { tools: ["*"], surface: { token_budget: 100000 } }`,
  });

  const { quartermaster } = await open(folder);
  const kindOf = async (actor: string) => (await quartermaster.surface({ actor })).kind;

  expect(await kindOf("default")).toBe("universal");
  expect(await kindOf("flat")).toBe("flat");
  expect(await kindOf("roomy")).toBe("flat");
});

test("reports a misnamed configuration file and a policy that matches nothing", async () => {
  const onProblem = vi.fn();

  await open(await folderWith({ "quartermaster.yml": "policy: { denied: [file__read] }" }), { onProblem });
  await open(await folderWith({ "quartermaster.yaml": "policy: { denied: [file__remove] }" }), { onProblem });

  expect(onProblem.mock.calls).toEqual([
    ["quartermaster.yml is not read: rename it to quartermaster.yaml"],
    [expect.stringMatching(/^policy.denied lists "file__remove", which no action fits/)],
  ]);
});

test("no file action creates a configuration in a folder below", async () => {
  const { quartermaster } = await open(await folderWith({ "quartermaster.yaml": WRITING, "sub/a.txt": "a" }));

  const outcome = await quartermaster.invoke("file__write", { path: "sub/quartermaster.yaml", content: "{}" });

  expect(outcome).toMatchObject({ status: "failed", error: { code: "path_refused" } });
});

test("file actions reach no state next to the store, in any folder", async () => {
  const kept = [
    ...["data/secrets.json", "data/secrets.json.lock", "data/.secrets.json.018f", "data/token", "data/logs/odd.log"],
    ...["data/bundles/abc/index.js", "quartermaster.yaml.bak-20260102T030405Z", ".quartermaster.yaml.018f"],
    "quartermaster.yaml.lock",
  ];
  const folder = await folderWith({
    ...Object.fromEntries(kept.map((path) => [path, "{}"])),
    "quartermaster.yaml": `${WRITING}store: { path: data/qm.db }`,
    "data/other.txt": "free",
  });
  const { invoke } = (await open(folder)).quartermaster;

  for (const path of kept) {
    expect(await invoke("file__read", { path })).toMatchObject(KEPT);
    expect(await invoke("file__write", { path, content: "mine" })).toMatchObject(KEPT);
  }
  expect(await invoke("file__list", { path: "data" })).toMatchObject({
    data: { entries: [{ path: "data/other.txt" }] },
  });
  expect(await invoke("file__list", {})).toMatchObject({ data: { entries: [{ path: "data" }] } });
});

test("redacts a secret that is stored later, and the parts of a login", async () => {
  const folder = await folderWith({ "quartermaster.yaml": WRITING });
  const workspace = await open(folder);
  const { quartermaster, secrets } = workspace;
  const say = async (words: string) => {
    await quartermaster.invoke("file__write", { path: "a.txt", content: words });
    return JSON.stringify(await eventsOf(workspace, "call.received"));
  };
  expect(await say("plain words")).toContain("plain words");

  await secrets.set("LATER", "zebra-crossing-nine");
  const login = {
    url: "https://mcp.example.com/mcp",
    tokens: { access_token: "walnut-cabinet-four", refresh_token: "marble-staircase-two", token_type: "Bearer" },
    clients: { "https://issuer.example.com": { client_id: "open", client_secret: "velvet-curtain-six" } },
  };
  await secrets.set("oauth.remote", JSON.stringify(login));
  const written = await say(
    "zebra-crossing-nine, walnut-cabinet-four, marble-staircase-two, velvet-curtain-six, https://issuer.example.com",
  );

  expect(written).not.toMatch(/zebra|walnut|marble|velvet/);
  expect(written).toContain("https://issuer.example.com");
});

test("reports unreadable secrets, and fails only where one is needed", async () => {
  const broken = { ".quartermaster/secrets.json": "{ hunter2" };
  const onProblem = vi.fn();

  const { quartermaster, fill } = await open(await folderWith({ ...broken, "a.txt": "a" }), { onProblem });

  expect(await quartermaster.invoke("file__read", { path: "a.txt" })).toMatchObject({ status: "done" });
  expect(onProblem.mock.calls).toEqual([[expect.stringMatching(/secrets\.json cannot be used/)]]);
  expect(onProblem.mock.calls.join()).not.toContain("hunter2");
  expect(fill("plain", "key")).toBe("plain");
  expect(() => fill(`\${secret:A}`, "key")).toThrow(/cannot be used/);
  const needing = await folderWith({ ...broken, "quartermaster.yaml": `secrets: ["\${secret:A}"]` });
  await expect(openWorkspace({ cwd: needing, env: {} })).rejects.toMatchObject({ code: "store_failed" });
});

test("keeps the folders of skills out of reach of the file actions", async () => {
  const folder = await folderWith({
    "quartermaster.yaml": "providers: { file: { read_only: false } }\nskills: { folders: [skills] }",
    "a.txt": "hello",
  });

  const { quartermaster } = await open(folder);
  const write = (path: string) => quartermaster.invoke("file__write", { path, content: "---\n" });

  for (const root of ["skills", ".agents/skills", ".claude/skills"])
    expect(await write(`${root}/evil/SKILL.md`)).toMatchObject({ error: { code: "path_refused" } });
  expect(await write("b.txt")).toMatchObject({ status: "done" });
});

const describeSkill = (name: string, text: string) => `---\nname: ${name}\ndescription: ${text}\n---\nDo it.\n`;

test("finds the skills of project folders after those of configured folders, which they cannot replace", async () => {
  const folder = await folderWith({
    "quartermaster.yaml": "skills: { folders: [skills] }",
    "skills/triage/SKILL.md": describeSkill("triage", "Ours."),
    ".agents/skills/Triage/SKILL.md": describeSkill("Triage", "Theirs."),
    ".agents/skills/first/SKILL.md": describeSkill("first", "First."),
    ".claude/skills/second/SKILL.md": describeSkill("second", "Second."),
  });
  const problems: string[] = [];

  const { quartermaster } = await open(folder, { onProblem: (problem) => problems.push(problem) });

  const skills = quartermaster.inventory().filter(({ category, source }) => category === "skill" && source !== "core");
  expect(skills.map(({ name, source, summary }) => [name, source, summary])).toEqual([
    ["skill__first", "project", "First."],
    ["skill__second", "project", "Second."],
    ["skill__triage", "configured", "Ours."],
  ]);
  expect(problems).toEqual([expect.stringMatching(/\.agents\/skills\/Triage\/SKILL\.md:1 .*already defined in/)]);
});

test("takes a project folder that is also configured, by any path, for a configured one", async () => {
  const folder = await folderWith({
    "quartermaster.yaml": "skills: { folders: [link] }",
    ".agents/skills/first/SKILL.md": describeSkill("first", "First."),
  });
  await symlink(join(folder, ".agents/skills"), join(folder, "link"));

  const { quartermaster, skillRoots } = await open(folder);

  expect(skillRoots.map(({ source }) => source)).toEqual(["configured", "core", "project"]);
  expect(await quartermaster.invoke("skill__first")).toMatchObject({ status: "done" });
});

test("searches no project folder that the configuration leaves out, and its own ones without a file", async () => {
  const files = { ".agents/skills/first/SKILL.md": describeSkill("first", "First.") };
  const without = await open(await folderWith({ ...files, "quartermaster.yaml": "skills: { project_folders: [] }" }));
  const bare = await open(await folderWith(files));

  expect(without.quartermaster.names()).not.toContain("skill__first");
  expect(bare.quartermaster.names()).toContain("skill__first");
});
