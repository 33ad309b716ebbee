import { afterEach, describe, expect, test } from "vitest";
import { fixturePath } from "../../../test/fixtures/mcp-servers/stdio-fixtures.ts";
import { cleanUp, createTestFolder, qm } from "../testing.ts";
import type { DoctorCheck } from "./environment-checks.ts";

afterEach(cleanUp);
const SMALL = { mcp: { install: false }, infospace: { enabled: false } };
const unasked = { servers: { memory: { command: process.execPath, args: ["-e", "0"] } } };

async function runDoctor(cwd: string, about: string) {
  const { code, out } = await qm(cwd, ["doctor", "--json"]);
  const { checks } = JSON.parse(out) as { checks: readonly DoctorCheck[] };
  const found = checks.filter((check) => check.about === about);
  expect(found.every(({ todo }) => todo !== undefined)).toBe(true);
  return { code, found: found.map(({ status, message }) => `${status} ${message}`), checks };
}

const doctor = async (config: object, about: string) =>
  runDoctor(await createTestFolder({ "quartermaster.yaml": JSON.stringify({ ...SMALL, ...config }) }), about);

function rules(rule: string, effect = "deny", actors: object = {}): object {
  return { policy: { rules: [{ name: "r", rule, effect }] }, actors };
}

describe("a world", () => {
  test("is reported when a folder is missing, and when it has no actions or actors", async () => {
    const worlds = {
      ready: { actions: ["file__read"] },
      empty: { skills: ["skills/none"], actions: ["file__raed"] },
    };
    const config = { worlds, world: "ready" };

    const cwd = await createTestFolder({ "quartermaster.yaml": JSON.stringify({ ...SMALL, ...config }) });
    const { checks } = JSON.parse((await qm(cwd, ["doctor", "--json"])).out) as { checks: readonly DoctorCheck[] };
    const list = (about: string) =>
      checks.filter((check) => check.about === about).map(({ status, message }) => `${status} ${message}`);

    expect(list("world")).toEqual([
      "ok ready: 1 action, 1 actor",
      `warn empty: ${cwd}/skills/none is not a folder`,
      "warn empty: no action belongs to it",
      "warn empty: no actor is in it",
    ]);
    expect(list("pattern")).toEqual([
      'warn the world empty lists "file__raed", which no action fits; did you mean file__read?',
    ]);
  });
});

describe("a rule", () => {
  test.each([
    ["tool.efect == 'read'", "tool.efect, which does not exist; did you mean effect?"],
    ["actor.scpe == 'admin'", "actor.scpe, which does not exist; did you mean scope?"],
    ["has(ctx.tenat)", "ctx.tenat, which does not exist; did you mean tenant?"],
    ["tool['nmae'] == 'x'", "tool.nmae, which does not exist; did you mean name?"],
  ])("on a field that does not exist fails: %s", async (rule, reads) => {
    expect(await doctor(rules(rule), "rule")).toMatchObject({ code: 1, found: [`fail rule "r" reads ${reads}`] });
  });

  test("on an argument that no action has is reported, once all tools are known", async () => {
    const rule = "tool.category == 'file' && args.pth == 'x'";

    expect(await doctor(rules(rule), "rule")).toMatchObject({
      code: 0,
      found: ['warn rule "r" reads args.pth, which no action it applies to has; did you mean path?'],
    });
    expect((await doctor({ ...rules(rule), ...unasked }, "rule")).found).toEqual([]);
  });

  test("on an argument of another action than it applies to is reported", async () => {
    const { found } = await doctor(rules("tool.name == 'file__read' && args.pattern == 'x'"), "rule");

    expect(found).toEqual([expect.stringContaining("args.pattern, which no action it applies to has")]);
  });

  test.each([
    ["true", "deny", "denies"],
    ["actor.scope != 'admin'", "ask", "asks about"],
    ["tool.name > 1", "hide", "hides"],
    ["true || args.path == 'x'", "deny", "denies"],
  ])("that objects to everything is reported: %s", async (rule, effect, verb) => {
    const { found } = await doctor(rules(rule, effect), "rule");

    expect(found).toEqual([`warn rule "r" ${verb} every action for every actor`]);
  });

  test.each([
    ["actor.scope != 'admin'", { default: { tools: ["*"] }, boss: { tools: ["*"], scope: "admin" } }],
    ["actor.level > 2", { default: { tools: ["*"], attributes: { level: 1 } } }],
    ["ctx.tenant != 'acme'", {}],
    ["has(args.path) && args.path.startsWith('x')", {}],
    ["tool.effect == 'write'", {}],
  ])("that can object and can pass is not reported: %s", async (rule, actors) => {
    expect((await doctor(rules(rule, "deny", actors), "rule")).found).toEqual([]);
  });

  test("that approves by itself is checked for its fields", async () => {
    const approvals = { categories: { file: { auto_approve_if: "tool.efect == 'read'" } } };

    expect((await doctor({ approvals }, "rule")).found).toEqual([
      "fail approvals.categories.file.auto_approve_if reads tool.efect, which does not exist; did you mean effect?",
    ]);
  });
});

const PATTERNS = {
  policy: { allowed: ["file__*", "fiel__*"], denied: ["file__raed"], require_tags: ["outbound"] },
  actors: {
    default: { tools: ["*"] },
    reader: { tools: ["files__*"], surface: { always_loaded_patterns: ["file__raed"] } },
  },
  surface: { always_loaded_patterns: ["file__read", "mail__*"], hot_list_seed: ["file__lst"] },
  search: { directory: { groups: [{ name: "g", actions: ["web__*"] }] } },
  routing: { rules: [{ name: "slow", event: "tool_call:file__raed", source: "actor:raeder", deadline_ms: 5 }] },
  gateway: { profiles: { default: { pass_through: ["memry"] } } },
};

describe("a pattern", () => {
  test("that fits nothing is reported with its place", async () => {
    const { code, found, checks } = await doctor(PATTERNS, "pattern");

    expect(code).toBe(0);
    expect(found).toEqual([
      'warn policy.denied lists "file__raed", which no action fits; did you mean file__read?',
      expect.stringContaining('warn policy.allowed lists "fiel__*", which no action fits'),
      expect.stringContaining('warn actor reader lists "files__*", which no action fits'),
      'warn surface.always_loaded_patterns lists "mail__*", which no action fits',
      'warn surface.hot_list_seed lists "file__lst", which no action fits; did you mean file__list?',
      'warn actors.reader.surface.always_loaded_patterns lists "file__raed", which no action fits; did you mean file__read?',
      'warn search.directory.groups g lists "web__*", which no action fits',
      'warn routing.rules slow lists "file__raed", which no action fits; did you mean file__read?',
      'warn gateway.profiles.default.pass_through lists "memry", which no server fits',
      'warn routing.rules slow lists "raeder", which no actor fits; did you mean reader?',
      'warn policy.require_tags lists "outbound", which no action has',
    ]);
    expect(checks.filter(({ about }) => about === "provider").every(({ status }) => status === "ok")).toBe(true);
  });

  test("for a server that was never asked is not reported", async () => {
    const config = {
      ...unasked,
      policy: { denied: ["mcp__memory__delete_*", "mcp__*__delete", "*_all"], require_tags: ["outbound"] },
      actors: { default: { tools: ["*"] }, keeper: { tools: ["mcp__memory__read_graph", "mcp__mem*"] } },
    };

    const { code, found, checks } = await doctor(config, "pattern");

    expect([code, found]).toEqual([0, []]);
    expect(checks.filter(({ status, about }) => status !== "ok" && about !== "server" && about !== "actor")).toEqual(
      [],
    );
  });

  test("for a file action that is switched off is not reported, unless an actor needs it", async () => {
    const actors = { default: { tools: ["*"] }, writer: { tools: ["file__write"] } };

    expect(await doctor({ policy: { denied: ["file__delete"] } }, "pattern")).toMatchObject({ code: 0, found: [] });
    expect(await doctor({ actors }, "actors")).toMatchObject({
      code: 1,
      found: ['fail actor writer lists "file__write", which does not exist: providers.file.read_only is true'],
    });
  });

  test("for the tools of a known server is compared with what it offers", async () => {
    const plain = {
      command: process.execPath,
      args: [fixturePath("plain.mjs")],
      tools: { echoo: { enabled: false }, "*": { tags: ["x"] } },
    };
    const cwd = await createTestFolder({ "quartermaster.yaml": JSON.stringify({ servers: { plain } }) });
    await qm(cwd, ["servers", "start", "plain"]);

    const { found } = await runDoctor(cwd, "pattern");

    expect(found).toEqual([
      expect.stringContaining('warn servers.plain.tools lists "echoo", which no tool of it fits'),
    ]);
  });
});
