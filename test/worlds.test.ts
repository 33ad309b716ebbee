import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createQuartermaster, type Quartermaster } from "../src/app/quartermaster.ts";
import { parseConfig } from "../src/config/parse.ts";
import { openGateway } from "../src/mcp/gateway/create-gateway.ts";
import type { PolicyOptions } from "../src/policy/policy.ts";
import type { SkillRoot } from "../src/providers/skill/skill-folders.ts";
import { openWorkspace, type WorkspaceOptions } from "../src/workspace/workspace.ts";

async function createFolder(files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "qm-worlds-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

const describeSkill = (name: string, text: string) => `---\nname: ${name}\ndescription: ${text}\n---\n${text}\n`;

const SKILLS = {
  "core/clean/SKILL.md": describeSkill("clean", "Clean a room."),
  "kitchen/clean/SKILL.md": describeSkill("clean", "Clean the oven."),
  "kitchen/brew/SKILL.md": describeSkill("brew", "Brew coffee."),
  "garage/clean/SKILL.md": describeSkill("clean", "Clean the engine."),
};

const policy: PolicyOptions = {
  worlds: [
    {
      name: "kitchen",
      description: "Cook and clean.",
      actions: ["boil", "weigh"],
      groups: [{ name: "drinks", trigger: "someone is thirsty", actions: ["skill__kitchen__brew", "boil"] }],
    },
    { name: "garage", actions: ["repair", "weigh"] },
  ],
  actors: [
    { name: "default", tools: ["*"] },
    { name: "cook", tools: ["*"], world: "kitchen" },
    { name: "mechanic", tools: ["*"], world: "garage" },
  ],
};

const TOOLS = ["ask", "boil", "repair", "weigh"];

/** Skills and tools of core and two worlds. `without`: a folder of skills and a tool that are left out. */
async function openWorlds(without: readonly string[] = []): Promise<Quartermaster> {
  const folder = await createFolder(SKILLS);
  const roots: readonly SkillRoot[] = [
    { folder: join(folder, "core"), source: "configured", trusted: true },
    { folder: join(folder, "kitchen"), source: "kitchen", trusted: true, world: "kitchen" },
    { folder: join(folder, "garage"), source: "garage", trusted: true, world: "garage" },
  ];
  const qm = await createQuartermaster({
    policy,
    skills: { roots: roots.filter(({ source }) => !without.includes(source)) },
    infospace: { enabled: true },
  });
  onTestFinished(qm.close);
  for (const name of TOOLS.filter((each) => !without.includes(each)))
    qm.register({
      name,
      description: `${name} it.`,
      inputSchema: { type: "object" },
      effect: "read",
      scope: "generalist",
      handler: () => ({ from: name }),
    });
  return qm;
}

const listOwn = (qm: Quartermaster, actor: string) =>
  qm.names({ actor }).filter((name) => name.startsWith("skill__") || name.startsWith("tool__"));

describe("an actor in a world", () => {
  test.each([
    ["default", ["skill__clean", "tool__ask"]],
    [
      "cook",
      ["skill__clean", "skill__kitchen__brew", "skill__kitchen__clean", "tool__ask", "tool__boil", "tool__weigh"],
    ],
    ["mechanic", ["skill__clean", "skill__garage__clean", "tool__ask", "tool__repair", "tool__weigh"]],
  ])("sees core and its own world: %s", async (actor, names) => {
    expect(listOwn(await openWorlds(), actor)).toEqual(names);
  });

  test("can use its skill when core and another world have one of the same name", async () => {
    const qm = await openWorlds();
    const read = (name: string, actor: string) => qm.invoke(name, {}, { caller: { actor } });

    expect(await read("skill__kitchen__clean", "cook")).toMatchObject({ data: expect.stringContaining("oven") });
    expect(await read("skill__garage__clean", "mechanic")).toMatchObject({ data: expect.stringContaining("engine") });
    expect(await read("skill__clean", "cook")).toMatchObject({ data: expect.stringContaining("room") });
    expect(qm.describe("tool__boil", { actor: "cook" }).metadata).toMatchObject({ source: "code", world: "kitchen" });
    expect(qm.describe("skill__kitchen__clean", { actor: "cook" }).metadata).toMatchObject({ source: "kitchen" });
  });

  test("gets its world first in the directory, with the groups of the world", async () => {
    const { text } = (await openWorlds()).directory({ actor: "cook" });

    expect(text).toMatch(
      /^## Directory of actions\n### World kitchen: Cook and clean\.\n- drinks — someone is thirsty — 2 actions\n {2}skill__kitchen__brew, tool__boil\n- skill__kitchen .*\n {2}skill__kitchen__clean\n- tool — 1 action\n {2}tool__weigh\n### Core\n/,
    );
    expect(text.slice(text.indexOf("### Core"))).toMatch(
      /\n- skill — .*\n {2}skill__clean\n- tool — 1 action\n {2}tool__ask$/,
    );
  });

  test("gets its world first in list_actions, page by page, each action once", async () => {
    const qm = await openWorlds();
    const surface = await qm.surface({ actor: "cook" });
    const items: { qualified_name: string; world?: string }[] = [];
    for (let offset: number | undefined = 0; offset !== undefined; ) {
      const { data } = await surface.call("list_actions", { offset, limit: 3 });
      const page = data as { items: typeof items; next_offset?: number };
      items.push(...page.items);
      offset = page.next_offset;
    }

    const names = items.map((item) => item.qualified_name);
    const own = ["skill__kitchen__brew", "skill__kitchen__clean", "tool__boil", "tool__weigh"];
    expect(names.slice(0, own.length)).toEqual(own);
    expect([...names].sort()).toEqual([...qm.names({ actor: "cook" })]);
    expect(names.slice(own.length)).toEqual(names.slice(own.length).sort());
    expect(items.filter(({ world }) => world === "kitchen").map((item) => item.qualified_name)).toEqual(own);
    const { data: skills } = await surface.call("list_actions", { category: ["skill"], filter: "clean" });
    expect((skills as { items: typeof items }).items.map((item) => item.qualified_name)).toEqual([
      "skill__kitchen__clean",
      "skill__clean",
    ]);
  });
});

describe("an action of another world", () => {
  /** Everything that one caller is told, without the ids of calls. */
  async function collectAnswers(qm: Quartermaster): Promise<string> {
    const caller = { actor: "cook", session: "s" };
    const surface = await qm.surface(caller);
    const asked = [
      ["list_actions", {}],
      ["list_actions", { category: ["skill"] }],
      ["search_actions", { query: "clean the engine and repair it" }],
      ...[
        "skill__garage__clean",
        "skill__garage__claen",
        "clean engine",
        "tool__repair",
        "repair",
        "skill__nothing",
      ].flatMap(
        (name) =>
          [
            ["describe_action", { action_name: name }],
            ["invoke_action", { action_name: name, args: {} }],
          ] as const,
      ),
    ] as const;
    const answers = [];
    for (const [tool, args] of asked) answers.push(await surface.call(tool, args));
    const shown = [qm.names(caller), qm.categories(caller), qm.directory(caller), await qm.hints("engine", caller)];
    return JSON.stringify([shown, answers], (key, value) => (key === "callId" ? undefined : value));
  }

  test("leaves no trace: every answer is the same as without it", async () => {
    const [withIt, without] = await Promise.all([openWorlds(), openWorlds(["garage", "repair"])]);

    expect(await collectAnswers(withIt)).toBe(await collectAnswers(without));
  });

  test("cannot be reached through a note that was made from its result", async () => {
    const qm = await openWorlds();
    const common = { tenant: "t", session: "shared" };
    const cook = { ...common, actor: "cook" };
    const created = await qm.invoke("infospace__apply", { action: "tool__weigh" }, { caller: cook });
    const own = await qm.invoke("infospace__apply", { action: "tool__boil" }, { caller: cook });
    const [both, boiled] = [created, own].map((outcome) => {
      expect(outcome).toMatchObject({ status: "done" });
      return (outcome as unknown as { data: { handle: string } }).data.handle;
    });
    for (const target of [both, boiled])
      expect(
        await qm.invoke("infospace__save", { target, reach: "tenant" }, { caller: cook, via: "library" }),
      ).toMatchObject({ status: "done" });
    const load = async (target: string | undefined, actor: string) =>
      (await qm.invoke("infospace__load", { target }, { caller: { ...common, actor } })).status;

    expect(await load(both, "mechanic")).toBe("done");
    expect(await load(boiled, "cook")).toBe("done");
    expect(await load(boiled, "mechanic")).toBe("failed");
    expect(await load(boiled, "default")).toBe("failed");
  });

  test("becomes visible as soon as the policy puts the actor into the world", async () => {
    const qm = await openWorlds();
    expect(qm.explain("tool__repair").because).toEqual({
      layer: "world",
      rule: "it belongs to the world garage; actor default is in none",
      world: "garage",
    });

    qm.usePolicy({ ...policy, world: "garage" });

    expect(await qm.invoke("tool__repair")).toMatchObject({ status: "done" });
    expect(() => qm.usePolicy({ ...policy, world: "garag" })).toThrow("did you mean garage?");
    expect(listOwn(qm, "default")).toContain("tool__repair");
  });
});

test("two worlds may share a folder of skills", async () => {
  const folder = await createFolder({ "brew/SKILL.md": describeSkill("brew", "Brew coffee.") });
  const roots = ["kitchen", "garage"].map((world) => ({ folder, source: world, trusted: true, world }));
  const qm = await createQuartermaster({ policy, skills: { roots } });
  onTestFinished(qm.close);

  expect(listOwn(qm, "cook")).toEqual(["skill__kitchen__brew"]);
  expect(listOwn(qm, "mechanic")).toEqual(["skill__garage__brew"]);
});

test("the library refuses names of worlds that cannot be part of a skill's name", async () => {
  const root = { folder: "/skills", source: "x", trusted: true, world: "big__world" };

  await expect(createQuartermaster({ policy: { worlds: [{ name: "Big world" }] } })).rejects.toThrow(
    "options.policy.worlds.0.name: expected lower-case letters",
  );
  await expect(createQuartermaster({ skills: { roots: [root] } })).rejects.toThrow("options.skills.roots.0.world");
});

test("the configuration in the guide can be loaded", async () => {
  const page = await readFile(join(import.meta.dirname, "../docs/guides/use-worlds.md"), "utf8");
  const [, text = ""] = /```yaml\n(.*?)```/s.exec(page) ?? [];

  expect(parseConfig(Buffer.from(text), "/quartermaster.yaml").config.world).toBe("minecraft");
});

describe("in a configuration", () => {
  const open = async (folder: string, more: Partial<WorkspaceOptions> = {}) => {
    const workspace = await openWorkspace({ cwd: folder, env: { A: "a".repeat(32), B: "b".repeat(32) }, ...more });
    onTestFinished(workspace.close);
    return workspace;
  };
  const SMALL = { mcp: { install: false }, infospace: { enabled: false } };

  test("the sample world adds its skills and the changing of files for one actor", async () => {
    const problems: string[] = [];
    const folder = join(import.meta.dirname, "../examples/world");
    const onProblem = (problem: string) => problems.push(problem);

    const { quartermaster } = await open(folder, { purpose: "looking", onProblem });

    const outside = quartermaster.names();
    const added = quartermaster.names({ actor: "release-manager" }).filter((name) => !outside.includes(name));
    expect(added).toEqual([
      "file__delete",
      "file__edit",
      "file__write",
      "skill__releases__check-release",
      "skill__releases__release-notes",
    ]);
    expect(quartermaster.directory({ actor: "release-manager" }).text).toContain("- publishing — ");
    expect(quartermaster.directory().text).not.toContain("releases");
    expect(problems).toEqual([]);
  });

  test("a change of world and of a world's actions applies at once, one of its folders needs a restart", async () => {
    const write = (config: object) => JSON.stringify({ ...SMALL, ...config });
    const folder = await createFolder({
      "quartermaster.yaml": write({ worlds: { kitchen: { skills: ["kitchen"], actions: ["file__read"] } } }),
      ...SKILLS,
    });
    const problems: string[] = [];
    const { quartermaster } = await open(folder, { watch: true, onProblem: (problem) => problems.push(problem) });
    expect(quartermaster.names()).not.toContain("file__read");
    expect(quartermaster.names()).not.toContain("skill__kitchen__brew");

    const kitchen = { skills: ["kitchen", "garage"], actions: ["file__list"] };
    await writeFile(join(folder, "quartermaster.yaml"), write({ worlds: { kitchen }, world: "kitchen" }));

    await vi.waitFor(() => expect(quartermaster.names()).toContain("skill__kitchen__brew"), 10_000);
    await vi.waitFor(() => expect(problems.join("\n")).toContain("is less strict: actors.default is in"), 10_000);
    expect(problems.join("\n")).toContain("the change of worlds.kitchen.skills needs a restart");
    expect(problems.join("\n")).toContain('is less strict: worlds.kitchen.actions no longer lists "file__read"');
    expect(quartermaster.list().items[0]).toMatchObject({ qualified_name: "file__list", world: "kitchen" });
    expect(quartermaster.names()).toContain("file__read");
  });

  test("the skills of a world cannot be changed through the file actions", async () => {
    const config = {
      ...SMALL,
      providers: { file: { read_only: false } },
      worlds: { kitchen: { skills: ["kitchen"] } },
    };
    const folder = await createFolder({ "quartermaster.yaml": JSON.stringify(config), ...SKILLS });
    const { quartermaster } = await open(folder);

    const outcome = await quartermaster.invoke("file__write", { path: "kitchen/new/SKILL.md", content: "x" });

    expect(outcome).toMatchObject({ error: { code: "path_refused" } });
  });

  test("each profile of the gateway gets the world of its actor", async () => {
    const config = {
      ...SMALL,
      worlds: { kitchen: { skills: ["kitchen"] }, garage: { skills: ["garage"], actions: ["file__read"] } },
      world: "kitchen",
      actors: { mechanic: { tools: ["*"], world: "garage" } },
      gateway: {
        profiles: {
          cooking: { token: `\${env:A}`, surface: "flat" },
          repairing: { token: `\${env:B}`, surface: "flat", actor: "mechanic" },
        },
      },
    };
    const folder = await createFolder({ "quartermaster.yaml": JSON.stringify(config), ...SKILLS });
    const gateway = openGateway(await open(folder), () => {});
    onTestFinished(gateway.close);
    const { url } = await gateway.listen({ port: 0 });
    const connect = async (token: string) => {
      const client = new Client({ name: "test", version: "1" });
      const requestInit = { headers: { authorization: `Bearer ${token}` } };
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
      onTestFinished(() => client.close());
      return client;
    };
    const [cook, mechanic] = await Promise.all([connect("a".repeat(32)), connect("b".repeat(32))]);
    const listTools = async (client: Client) =>
      (await client.listTools()).tools.map(({ name }) => name).filter((name) => /^skill__\w+__|^file__r/.test(name));

    expect(await listTools(cook)).toEqual(["skill__kitchen__brew", "skill__kitchen__clean"]);
    expect(await listTools(mechanic)).toEqual(["file__read", "skill__garage__clean"]);
    const call = (client: Client, name: string) =>
      client.callTool({ name, arguments: {} }).then(
        ({ isError, content }) => ({ isError, content: JSON.stringify(content).replaceAll(name, "<name>") }),
        (thrown: Error) => ({ thrown: thrown.message.replaceAll(name, "<name>") }),
      );
    expect(await call(mechanic, "skill__garage__clean")).not.toMatchObject({ isError: true });
    expect(await call(cook, "skill__garage__clean")).toEqual(await call(cook, "skill__garage__claen"));
  });
});
