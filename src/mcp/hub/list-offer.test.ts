import { expect, test } from "vitest";
import { QmError } from "../../core/errors.ts";
import type { JsonObject } from "../../core/json.ts";
import { type ListingOptions, listingLimits, listOffer } from "./list-offer.ts";

const ALL = { tools: {}, resources: {}, prompts: {} };
const tool = (name: string, more: JsonObject = {}): JsonObject => ({ name, inputSchema: { type: "object" }, ...more });
const failing = (code: number) => new QmError("action_failed", "no", { details: { mcp_code: code } });

function list(answers: Record<string, (params: JsonObject) => JsonObject>, given: Partial<ListingOptions> = {}) {
  const asked: string[] = [];
  const listed = listOffer({
    server: "subject",
    capabilities: ALL,
    ask: async (method, params) => {
      asked.push(method);
      const answer = answers[method];
      if (answer === undefined) throw failing(-32601);
      return answer(params);
    },
    paramHeaders: false,
    limits: listingLimits,
    ...given,
  });
  return { listed, asked };
}

test("reads all pages in order, also after an empty cursor", async () => {
  const { listed } = list({
    "tools/list": ({ cursor }) =>
      cursor === undefined
        ? { tools: [tool("a")], nextCursor: "" }
        : cursor === ""
          ? { tools: [tool("b")], nextCursor: "last" }
          : { tools: [tool("c")] },
  });

  expect((await listed).lists.tools.map(({ name }) => name)).toEqual(["a", "b", "c"]);
});

test("reads only the lists that the server has capabilities for", async () => {
  const { listed, asked } = list(
    { "prompts/list": () => ({ prompts: [{ name: "p" }] }) },
    { capabilities: { prompts: {} } },
  );

  expect((await listed).lists).toEqual({ tools: [], resources: [], resourceTemplates: [], prompts: [{ name: "p" }] });
  expect(asked).toEqual(["prompts/list"]);
});

test("leaves out and reports a malformed entry and keeps the others", async () => {
  const { listed } = list({
    "tools/list": () => ({
      tools: [
        tool("good", { annotations: null, unknown: 1 }),
        tool(""),
        tool("no-schema", { inputSchema: "none" }),
        tool("described", { description: 5 }),
        tool("good"),
        "text",
        null,
        tool("also-good"),
      ] as unknown as JsonObject[],
    }),
    "resources/list": () => ({ resources: [{ uri: "a:b" }, { name: "no uri" }] }),
  });

  const { lists, problems } = await listed;

  expect(lists.tools).toEqual([tool("good", { unknown: 1 }), tool("also-good")]);
  expect(lists.resources).toEqual([{ uri: "a:b" }]);
  expect(problems).toEqual([
    'tools: "" has no name',
    'tools: "no-schema" has no inputSchema',
    'tools: "described" has a description that is not a string',
    'tools: "good" is listed twice',
    "tools: number 6 is not an object",
    "tools: number 7 is not an object",
    "resources: number 2 has no uri",
  ]);
});

test("removes control characters from names in problems", async () => {
  const { listed } = list({ "tools/list": () => ({ tools: [tool("a\u001b[2Kb", { inputSchema: 1 })] }) });

  expect((await listed).problems.join()).not.toContain("\u001b");
});

test("keeps other lists when one fails, and treats unknown templates as none", async () => {
  const { listed } = list({
    "tools/list": () => ({ tools: [tool("t")] }),
    "resources/list": () => {
      throw failing(-32603);
    },
    "prompts/list": () => ({ prompts: "none" }),
  });

  const { lists, problems } = await listed;

  expect(lists).toMatchObject({ tools: [tool("t")], resources: [], resourceTemplates: [], prompts: [] });
  expect(problems).toEqual([
    "resources/list failed: no",
    "prompts/list failed: prompts/list of subject answered without a list of prompts",
  ]);
});

test.each([
  [
    "with an error",
    () => {
      throw failing(-32603);
    },
    "no",
  ],
  ["without a list", () => ({ tools: "none" }), "answered without a list of tools"],
])("fails if the tools are answered %s the first time", async (_, answer, said) => {
  const { listed } = list({ "tools/list": answer as () => JsonObject });

  await expect(listed).rejects.toMatchObject({ code: "server_failed", message: expect.stringContaining(said) });
});

test("treats an unknown tools/list as no tools", async () => {
  const { listed } = list({ "resources/list": () => ({ resources: [{ uri: "a:b" }] }) });

  expect(await listed).toMatchObject({ lists: { tools: [], resources: [{ uri: "a:b" }] }, problems: [] });
});

test.each([-32603, -32601])(
  "keeps the previous list and reports a problem when it fails later with %s",
  async (code) => {
    const before = { tools: [tool("kept")], resources: [], resourceTemplates: [], prompts: [] };
    const { listed } = list(
      {
        "tools/list": () => {
          throw failing(code);
        },
      },
      { before: before as never },
    );

    expect(await listed).toMatchObject({ lists: { tools: [tool("kept")] }, problems: ["tools/list failed: no"] });
  },
);

test("rethrows other errors", async () => {
  const gone = new QmError("server_failed", "gone");
  const { listed } = list({
    "tools/list": () => {
      throw gone;
    },
  });

  await expect(listed).rejects.toBe(gone);
});

test.each([
  ["pages without end", (page: number) => ({ tools: [], nextCursor: `${page}` }), "more than 3 pages"],
  ["a page that leads back", () => ({ tools: [], nextCursor: "same" }), "the same page twice"],
  [
    "too many entries",
    () => ({ tools: ["a", "b", "c", "d", "e", "f"].map((name) => tool(name)) }),
    "more than 5 entries",
  ],
  ["too much", () => ({ tools: [tool("a".repeat(5000))] }), "more than 4000 characters"],
])("reports %s", async (_, answer, message) => {
  let page = 0;
  const limits = { pages: 3, entries: 5, characters: 4000 };
  const { listed } = list({ "tools/list": () => answer(page++) }, { limits });

  await expect(listed).rejects.toMatchObject({ code: "too_large", message: expect.stringContaining(message) });
});

test("leaves out a tool with an invalid header annotation only over HTTP", async () => {
  const wrong = tool("wrong", {
    inputSchema: { type: "object", properties: { a: { type: "number", "x-mcp-header": "A" } } },
  });
  const answers = { "tools/list": () => ({ tools: [wrong] }) };

  const there = await list(answers).listed;
  const gone = await list(answers, { paramHeaders: true }).listed;

  expect(there.lists.tools).toHaveLength(1);
  expect(gone.lists.tools).toEqual([]);
  expect(gone.problems.join()).toContain("cannot be called over HTTP");
});

test("leaves out an entry that is nested too deep", async () => {
  let deep: JsonObject = {};
  for (let depth = 0; depth < 500; depth++) deep = { a: deep };
  const { listed } = list({ "tools/list": () => ({ tools: [tool("deep", { inputSchema: deep }), tool("b")] }) });

  expect((await listed).lists.tools.map(({ name }) => name)).toEqual(["b"]);
});

const WITH_SKILLS = { ...ALL, extensions: { "io.modelcontextprotocol/skills": {} } };
const skill = (name: string, more: JsonObject = {}): JsonObject => {
  const uri = `skill://${name}/SKILL.md`;
  const resources = [{ uri, digest: `sha256:${"0".repeat(64)}`, size: 1 }];
  return { uri, frontmatter: { name, description: "Helps." }, resources, ...more };
};

test("lists skills after the tools, only of a server that announces them, and never their files as resources", async () => {
  const answers = {
    "tools/list": () => ({ tools: [tool("t", { skill: { uri: "forged" } })] }),
    "resources/list": () => ({ resources: [{ uri: "skill://a/SKILL.md" }, { uri: "file:///x" }] }),
    "skills/list": () => ({ skills: [skill("a"), skill("a"), skill("b", { uri: "skill://x/../b/SKILL.md" })] }),
  };
  const announced = await list(answers, { capabilities: WITH_SKILLS }).listed;
  const silent = list(answers);

  expect(announced.lists.tools.map(({ name, skill }) => [name, skill?.uri])).toEqual([
    ["t", undefined],
    ["skill/a", "skill://a/SKILL.md"],
  ]);
  expect(announced.lists.resources).toEqual([{ uri: "file:///x" }]);
  expect(announced.problems).toEqual([
    'skills: "skill://a/SKILL.md" is listed twice',
    expect.stringContaining('skills: "skill://x/../b/SKILL.md" has no URI'),
  ]);
  expect((await silent.listed).lists.resources).toHaveLength(2);
  expect(silent.asked).not.toContain("skills/list");
});

test("takes the first 500 of ten thousand skills and asks for no further page", async () => {
  const page = (from: number) => Array.from({ length: 100 }, (_, at) => skill(`s${from + at}`));
  const { listed, asked } = list(
    {
      "skills/list": ({ cursor }) => {
        const from = Number(cursor ?? 0);
        return { skills: page(from), ...(from < 9900 ? { nextCursor: String(from + 100) } : {}) };
      },
    },
    { capabilities: WITH_SKILLS },
  );
  const whole = list(
    { "skills/list": () => ({ skills: Array.from({ length: 10_000 }, (_, at) => skill(`s${at}`)) }) },
    { capabilities: WITH_SKILLS },
  );

  expect((await listed).lists.tools).toHaveLength(500);
  expect(asked.filter((method) => method === "skills/list")).toHaveLength(5);
  expect((await whole.listed).lists.tools).toHaveLength(500);
  expect((await whole.listed).problems).toEqual(["skills: only the first 500 were taken"]);
});

test("keeps the skills known before when they cannot be listed again", async () => {
  const first = await list({ "skills/list": () => ({ skills: [skill("a")] }) }, { capabilities: WITH_SKILLS }).listed;
  const failed = list({ "tools/list": () => ({ tools: [] }) }, { capabilities: WITH_SKILLS, before: first.lists });

  expect((await failed.listed).lists.tools.map(({ name }) => name)).toEqual(["skill/a"]);
});
