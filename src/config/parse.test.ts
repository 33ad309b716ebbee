import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { QmError } from "../core/errors.ts";
import { type ParseConfigOptions, parseConfig } from "./parse.ts";

const parse = (text: string, options?: ParseConfigOptions) =>
  parseConfig(Buffer.from(text), "/app/quartermaster.yaml", options);

function errorOf(text: string, options?: ParseConfigOptions): QmError {
  try {
    parse(text, options);
  } catch (thrown) {
    if (thrown instanceof QmError) return thrown;
    throw thrown;
  }
  throw new Error("it was accepted");
}

describe("a configuration", () => {
  test("has every default when it is empty", () => {
    expect(parse("")).toMatchObject({ path: "/app/quartermaster.yaml", folder: "/app", references: [] });
    expect(parse("").config).toEqual({
      store: { path: ".quartermaster/quartermaster.db" },
      providers: {
        file: { enabled: true, root: ".", readOnly: true },
        source: { enabled: false },
        memory: { enabled: false },
        rag: { enabled: false },
        web: { enabled: false, allowHosts: [], respectRobots: true, maxBytes: 5_242_880 },
        exec: {
          enabled: false,
          folder: "work",
          sandbox: { network: false, read: [], write: [], memoryMb: 1_024, processes: 128, fileMb: 64 },
          timeoutMs: 60_000,
          maxTimeoutMs: 600_000,
          outputBytes: 1_048_576,
          env: {},
          allowEnv: [],
          unisolated: false,
        },
      },
      skills: { folders: [], projectFolders: [".agents/skills", ".claude/skills"] },
      models: {},
      servers: {},
      apis: {},
      mcp: { registry: "https://registry.modelcontextprotocol.io", startingAtOnce: 4, install: true },
      gateway: {
        host: "127.0.0.1",
        port: 7420,
        allowedHosts: [],
        allowedOrigins: [],
        sessionIdle: "30m",
        profiles: {},
      },
      peers: {},
      a2a: {
        enabled: false,
        name: "Quartermaster",
        description: "Runs approved tools and agents on behalf of other agents.",
        clients: {},
      },
      policy: { gates: {}, denied: [], requireTags: [], rules: [], budgets: {} },
      actors: { default: { tools: ["*"], attributes: {} } },
      worlds: {},
      approvals: {
        expiresIn: "24h",
        allowSelf: false,
        askClient: true,
        maxOpen: 100,
        categories: {},
        levels: {},
        approvers: {},
      },
      routing: { rules: [] },
      routerModel: "strong",
      actionRetrieval: {},
      telemetry: { enabled: false, content: false },
      infospace: {
        enabled: true,
        expiresIn: "24h",
        previewLimit: 1200,
        fillLimit: 4194304,
        quota: {
          session: { notes: 500_000, bytes: 268_435_456, rows: 500_000 },
          user: { notes: 2_000_000, bytes: 1_073_741_824, rows: 2_000_000 },
          tenant: { notes: 4_000_000, bytes: 2_147_483_648, rows: 4_000_000 },
        },
      },
      surface: {
        kind: "universal",
        tokenBudget: 8000,
        selection: "none",
        hotListN: 0,
        hotListSeed: expect.arrayContaining(["file__read"]),
        defaultLoadingMode: "deferred",
        alwaysLoadedPatterns: [],
        activationScope: "run",
      },
      search: {
        enabled: true,
        maxResults: 20,
        preferredNamespaces: [],
        embedder: { timeoutMs: 1500 },
        index: { incremental: true, rebuild: false },
        hints: { enabled: false, topK: 5, includeAlwaysLoaded: false },
        directory: {
          enabled: false,
          maxGroups: 20,
          maxActionsPerGroup: 6,
          showCounts: true,
          defaultGroups: true,
          groups: [],
        },
      },
      limits: { timeoutMs: 60_000, concurrency: 32, queue: 256, hops: 4, valueChars: 4096 },
      ledger: { redact: [] },
      secrets: [],
    });
  });

  test("keeps the default actor next to others, unless it is redefined", () => {
    const beside = parse("actors: { reviewer: { tools: [file__read], attributes: { level: 3 } } }").config.actors;
    const anew = parse("actors: { default: { tools: [] } }").config.actors;

    expect(beside).toEqual({
      default: { tools: ["*"], attributes: {} },
      reviewer: { tools: ["file__read"], attributes: { level: 3 } },
    });
    expect(anew).toEqual({ default: { tools: [], attributes: {} } });
  });

  test("distinguishes an empty from an absent allowed list", () => {
    expect(parse("policy: { allowed: [] }").config.policy.allowed).toEqual([]);
    expect(parse("policy: {}").config.policy.allowed).toBeUndefined();
  });

  test("is frozen, and does not share defaults with the next one", () => {
    const tools = parse("").config.actors.default?.tools as string[] | undefined;

    expect(() => tools?.push("x")).toThrow(TypeError);
    expect(parse("").config.actors.default?.tools).toEqual(["*"]);
  });

  test("has one fingerprint for the same bytes", () => {
    expect(parse("limits: {}").fingerprint).toBe(parse("limits: {}").fingerprint);
    expect(parse("limits: {}").fingerprint).not.toBe(parse("limits:  {}").fingerprint);
  });
});

const bad: readonly (readonly [text: string, message: string])[] = [
  ["policy:\n  denyed: []", ":2:3 policy.denyed: unknown key; did you mean denied?"],
  ["polcy: {}", ":1:1 polcy: unknown key; did you mean policy?"],
  ["limits: { timeoutMs: 5 }", ":1:11 limits.timeoutMs: unknown key; did you mean timeout_ms?"],
  ["actors: { toString: { tols: [] } }", "actors.toString.tols: unknown key; did you mean tools?"],
  [
    "gateway: { profiles: { x: { actor: defualt } } }",
    'gateway.profiles.x.actor: "defualt" is not allowed; no actor is called that; did you mean default?',
  ],
  [
    `gateway: { profiles: { x: { token: '\${env:T}' }, y: { token: '\${env:T}' } } }`,
    "is not allowed; the profile x has the same token",
  ],
  ["peers: { a: { url: 'http://a.example' } }", "expected an https URL without # and user, or http on this machine"],
  ["peers: { a: { url: 'https://me:pw@a.example' } }", "expected an https URL without # and user"],
  ["peers: { a: { url: 'https://a.example', token: abc } }", "peers.a.token: this value is not allowed; expected `$"],
  ["peers: { default: { url: 'https://a.example' } }", "an actor is called that; rename one of them"],
  [
    `a2a: { clients: { x: { token: '\${env:T}', actor: defualt } } }`,
    'a2a.clients.x.actor: "defualt" is not allowed; no actor is called that; did you mean default?',
  ],
  [
    `a2a: { clients: { x: { token: '\${env:T}', actor: default }, y: { token: '\${env:T}', actor: default } } }`,
    "is not allowed; the client x has the same token",
  ],
  ["servers: { a: {} }", "servers.a: has neither `command`, for a local server, nor `url`, for a remote one"],
  ["servers: { a: { command: x, url: 'http://x.example' } }", "servers.a: has both `command`"],
  ["servers: { a: { url: 'htp:/x' } }", 'servers.a.url: "htp:/x" is not allowed; expected an http or https URL'],
  ["servers: { a: { url: 'https://' } }", 'servers.a.url: "https://" is not allowed; expected an http or https URL'],
  [
    "zzzzzz: 1",
    "zzzzzz: unknown key; known here: store, providers, skills, models, servers, apis, mcp, gateway, peers",
  ],
  ["providers: { shop: {} }", "providers.shop: unknown key; known here: file, source, memory, rag, web, exec"],
  ["actors: { bob: { tools: [], scop: x } }", "actors.bob.scop: unknown key; did you mean scope?"],
  [
    "policy: { rules: [{ name: a, rule: b, effect: deny, efect: x }] }",
    "policy.rules[0].efect: unknown key; did you mean effect?",
  ],
  ["policy: { budgets: { turn: { call: 1 } } }", "policy.budgets.turn.call: unknown key; did you mean calls?"],
  ['"a\\eb": 1', '"a\\u001bb": unknown key'],
  ["<<: { store: {} }", '"<<": unknown key'],
  ["- a", ":1:1 a list is not allowed; expected a mapping"],
  ["hello", ':1:1 "hello" is not allowed; expected a mapping'],
  ["5", "5 is not allowed; expected a mapping"],
  ["policy:", "policy: empty; expected a mapping"],
  ["policy:\n  allowed:\n  denied: []", ":2:11 policy.allowed: empty; expected a list"],
  ["policy: { allowed: file__* }", 'policy.allowed: "file__*" is not allowed; expected a list'],
  ["policy: { denied: [5] }", ":1:20 policy.denied[0]: 5 is not allowed; expected the name of an action, a glob"],
  ['policy: { denied: [""] }', 'policy.denied[0]: "" is not allowed; expected the name'],
  ["policy: { denied: [file read] }", 'policy.denied[0]: "file read" is not allowed; expected a name without spaces'],
  ["policy: { require_tags: [[x]] }", "policy.require_tags[0]: a list is not allowed; expected a tag"],
  ["policy: { rules: [{ name: a, rule: 'true' }] }", "policy.rules[0].effect: missing; expected hide, deny, ask"],
  [
    "policy: { rules: [{ name: a, rule: b, effect: hid }] }",
    '"hid" is not allowed; expected hide, deny, ask; did you mean hide?',
  ],
  ["policy: { rules: [{ rule: b, effect: ask }] }", "policy.rules[0].name: missing; expected a name"],
  [
    "policy: { rules: [{ name: a, rule: true, effect: ask }] }",
    "policy.rules[0].rule: true is not allowed; expected a CEL expression",
  ],
  ["policy: { rules: { a: b } }", "policy.rules: a mapping is not allowed; expected a list"],
  ["policy: { rules: [x] }", 'policy.rules[0]: "x" is not allowed; expected a mapping'],
  [
    "policy: { budgets: { turn: { calls: 0 } } }",
    "policy.budgets.turn.calls: 0 is not allowed; expected a whole number of at least 1",
  ],
  [
    "policy: { budgets: { tenant: { ms: 1.5 } } }",
    "policy.budgets.tenant.ms: 1.5 is not allowed; expected a whole number",
  ],
  ["policy: { budgets: { session: { bytes: 1e30 } } }", "policy.budgets.session.bytes: 1e+30 is not allowed"],
  ["actors: { bob: {} }", "actors.bob.tools: missing; expected a list"],
  ["actors: { bob: }", "actors.bob: empty; expected a mapping"],
  ["actors: { 'b b': { tools: [] } }", 'actors."b b": "b b" is not allowed; expected a letter, then letters, digits'],
  [
    "actors: { bob: { tools: [], attributes: { a: [1] } } }",
    "actors.bob.attributes.a: a list is not allowed; expected text, a number, true or false",
  ],
  ["actors: { bob: { tools: [], attributes: { a: .nan } } }", "actors.bob.attributes.a: NaN is not allowed"],
  [
    "actors: { bob: { tools: [], attributes: { a-b: 1 } } }",
    'actors.bob.attributes.a-b: "a-b" is not allowed; expected letters, digits and _',
  ],
  [
    "actors: { bob: { tools: [], surface: { kind: falt } } }",
    "expected universal, deferred, flat, auto; did you mean flat?",
  ],
  ["actors: { bob: { tools: [], attributes: { scope: admin } } }", "actors.bob.attributes.scope: "],
  ["actors: { bob: { tools: [], attributes: { world: a } } }", "actors.bob.attributes.world: "],
  [
    "worlds: { mine: {} }\nworld: mina",
    ':2:8 world: "mina" is not allowed; no world is called that; did you mean mine?',
  ],
  ["actors: { bob: { tools: [], world: mine } }", 'actors.bob.world: "mine" is not allowed; no world is called that'],
  ["worlds: { mine__craft: {} }", 'worlds.mine__craft: "mine__craft" is not allowed; expected lower-case letters'],
  ["worlds: { mine: { skill: [] } }", "worlds.mine.skill: unknown key; did you mean skills?"],
  ["worlds: { mine: { actions: mine__* } }", "worlds.mine.actions: "],
  [
    "models: { fast: { provider: anthropic, model: m } }\nactors: { bob: { tools: [], model: fsat } }",
    ':2:36 actors.bob.model: "fsat" is not allowed; no model is called that; did you mean fast?',
  ],
  [
    "models: { a: { provider: anthropic, model: m } }\nactors: { bob: { tools: [], model: a, budgets: { turn: { cost: 1 } } } }",
    "models.a.price: missing; actors.bob.budgets.turn.cost needs it",
  ],
  [
    "models: { default: { provider: anthropic, model: m } }\nactors: { bob: { tools: [], budgets: { tenant: { cost: 1 } } } }",
    "models.default.price: missing; actors.bob.budgets.tenant.cost needs it",
  ],
  ["surface: { kind: lazy }", 'surface.kind: "lazy" is not allowed; expected universal, deferred, flat, auto'],
  [
    "surface: { kind: deferred }\nsearch: { enabled: false }",
    ':1:18 surface.kind: "deferred" is not allowed; the deferred surface needs search, and search.enabled is false',
  ],
  [
    "actors: { a: { tools: [], surface: { kind: deferred } } }\nsearch: { enabled: false }",
    'actors.a.surface.kind: "deferred" is not allowed; the deferred surface needs search',
  ],
  [
    "surface: { kind: auto }\naction_retrieval: { universal_wrappers_enabled: false }",
    ":2:49 action_retrieval.universal_wrappers_enabled: means surface.kind: flat, but surface.kind is auto; set only one",
  ],
  [
    "action_retrieval: { embedding_class: null }\nsearch: { embedder: { class: strong } }",
    "action_retrieval.embedding_class: means search.embedder.class: null, but search.embedder.class is strong",
  ],
  [
    "action_retrieval: { hot_list_n: 3 }\nsurface: { hot_list_n: 12345678901234567890 }",
    "action_retrieval.hot_list_n: means surface.hot_list_n: 3, but surface.hot_list_n is 1234567890",
  ],
  ["action_retrieval: { hot_list_n: 65 }", "action_retrieval.hot_list_n: 65 is not allowed; expected a whole number"],
  ["action_retrieval: { hot_list_n: 3 }\nsurface: 5", "surface: 5 is not allowed; expected a mapping"],
  ["action_retrieval: { hotlist_n: 3 }", "action_retrieval.hotlist_n: unknown key; did you mean hot_list_n?"],
  ["router_model: weak", 'router_model: "weak" is not allowed; expected light, strong'],
  ["search: { embedder: { class: tiny } }", "expected light, standard, strong, local-mini"],
  [
    "search: { embedder: { api_key: hunter2 } }",
    `search.embedder.api_key: this value is not allowed; expected \`\${env:NAME}\` or \`\${secret:NAME}\`, not the secret itself`,
  ],
  ["surface: { token_budget: many }", 'surface.token_budget: "many" is not allowed; expected a whole number from 1 to'],
  [
    "limits: { timeout_ms: -5 }",
    ":1:23 limits.timeout_ms: -5 is not allowed; expected a whole number from 1 to 86400000",
  ],
  ["limits: { timeout_ms: 2147483648 }", "limits.timeout_ms: 2147483648 is not allowed"],
  ["limits: { concurrency: .inf }", "limits.concurrency: Infinity is not allowed"],
  ["limits: { value_chars: 10 }", "limits.value_chars: 10 is not allowed; expected a whole number from 256"],
  ["providers: { file: { enabled: yes } }", 'providers.file.enabled: "yes" is not allowed; expected true or false'],
  ["providers: { file: { root: 5 } }", "providers.file.root: 5 is not allowed; expected a path"],
  ['store: { path: "" }', 'store.path: "" is not allowed; expected a path'],
  [`store: { path: "\${file:/x}" }`, `store.path: "\${file:/x}" is not allowed; unknown kind of reference "file"`],
  [`store: { path: "\${HOME}/x" }`, `store.path: "\${HOME}/x" is not allowed; "\${HOME}" is not a reference`],
  [
    `policy: { denied: ["\${env:X}"] }`,
    `policy.denied[0]: "\${env:X}" is not allowed; a reference cannot be used here`,
  ],
  [
    "secrets: [hunter2]",
    `secrets[0]: this value is not allowed; expected \`\${env:NAME}\` or \`\${secret:NAME}\`, not the secret itself`,
  ],
  ["store: {}\nstore: {}", ":2:1 store: the key is repeated"],
  ["store: &a { path: x }", "store: anchors and aliases are not supported"],
  ["actors: { __proto__: { tools: [] } }", "actors.__proto__: a key may not have this name"],
];

test("action_retrieval sets the same options as surface and search", () => {
  const { config } = parse(
    "action_retrieval: { universal_wrappers_enabled: false, embedding_class: strong, hot_list_n: 3 }\nsearch: { embedder: { model: mine } }",
  );
  const own = parse(
    "surface: { kind: flat, hot_list_n: 3 }\nsearch: { embedder: { class: strong, model: mine } }",
  ).config;

  expect([config.surface, config.search]).toEqual([own.surface, own.search]);
});

test("a value may be set under both of its names", () => {
  const both = "surface: { kind: universal }\naction_retrieval: { universal_wrappers_enabled: true }";

  expect(parse(both).config.surface.kind).toBe("universal");
});

describe("a bad configuration", () => {
  test.each([
    `gateway: { profiles: { b: { token: "12345678901234567890" } } }`,
    "gateway: { profiles: { b: { token: 12345678901234567890 } } }",
    "approvals: { approvers: { ann: { token: 12345678901234567890 } } }",
    `servers: { a: { url: "https://a.example", oauth: { client_secret: "12345678901234567890" } } }`,
    "secrets: 12345678901234567890",
    `servers: { a: { url: "https://a.example", headers: { Authorization: "12345678901234567890 \${X" } } }`,
  ])("names the key but not the secret of %j", (text) => {
    const error = errorOf(text);

    expect(error.message).toMatch(/:1:\d+ .*: this value is not allowed; /);
    expect(error.message + JSON.stringify(error.details)).not.toContain("1234567890");
  });

  test.each(bad)("%j", (text, message) => {
    const error = errorOf(text);

    expect(error.code).toBe("invalid_config");
    expect(error.message).toMatch(/^\/app\/quartermaster\.yaml:\d+:\d+ /);
    expect(error.message).toContain(message);
  });

  test("reports a mistyped `command` once, not also as missing", () => {
    expect(errorOf("servers: { a: { comand: x } }").message).toBe(
      "/app/quartermaster.yaml:1:17 servers.a.comand: unknown key; did you mean command?",
    );
  });

  test("reports all problems at once, in the order of the file, and as data", () => {
    const compileExpression = () => {
      throw new QmError("invalid_expression", "no");
    };

    const error = errorOf(
      `limts: 1\npolicy:\n  rules:\n    - { name: a, rule: x, effect: eat }\n    - { name: a, rule: '' }\nstore: { path: '\${env:NOPE}' }\nsurface: { kind: 5 }\n`,
      { compileExpression, env: {} },
    );

    expect(error.message.split("\n")).toEqual([
      "/app/quartermaster.yaml:1:1 limts: unknown key; did you mean limits?",
      "/app/quartermaster.yaml:4:24 policy.rules[0].rule: no",
      '/app/quartermaster.yaml:4:35 policy.rules[0].effect: "eat" is not allowed; expected hide, deny, ask',
      "/app/quartermaster.yaml:5:7 policy.rules[1].effect: missing; expected hide, deny, ask",
      "/app/quartermaster.yaml:5:15 policy.rules[1].name: another rule has this name",
      '/app/quartermaster.yaml:5:24 policy.rules[1].rule: "" is not allowed; expected a CEL expression',
      "/app/quartermaster.yaml:6:16 store.path: the environment variable NOPE is not set, or is empty",
      "/app/quartermaster.yaml:7:18 surface.kind: 5 is not allowed; expected universal, deferred, flat, auto",
    ]);
    expect(error.details).toMatchObject({
      path: "/app/quartermaster.yaml",
      problems: expect.arrayContaining([expect.objectContaining({ line: 1, column: 1, key: "limts" })]),
    });
  });

  test("does not reveal secrets", () => {
    const error = errorOf("secrets: [hunter2]\ntoken: hunter2\n");

    expect(JSON.stringify(error.toProblem())).not.toContain("hunter2");
  });

  test("is rejected quickly and briefly when it has very many problems", () => {
    const keys = Array.from({ length: 60_000 }, (_, n) => `k${n}: "\${env:NOPE}"\n`).join("");
    const items = `policy: { denied: [${"5,".repeat(200_000)}] }`;
    const started = process.cpuUsage();

    for (const text of [keys, items]) expect(errorOf(text, { env: {} }).message.length).toBeLessThan(5000);

    // Processor time: a busy machine does not fail it.
    expect(process.cpuUsage(started).user / 1000).toBeLessThan(20_000);
  });
});

describe("a reference", () => {
  const text = `store: { path: "\${env:DATA}/qm.db" }\nsecrets: ["\${env:TOKEN}"]\n`;

  test("stays unfilled in the configuration, and is listed", () => {
    const { config, references } = parse(text, { env: { DATA: "/data", TOKEN: "s3cret" } });

    expect(config.store.path).toBe(`\${env:DATA}/qm.db`);
    expect(JSON.stringify(config)).not.toContain("s3cret");
    expect(references).toEqual([
      { key: "store.path", variable: "DATA" },
      { key: "secrets[0]", variable: "TOKEN" },
    ]);
  });

  test("to a missing variable is a problem only if the environment is given", () => {
    expect(parse(text).references).toHaveLength(2);
    expect(errorOf(text, { env: { TOKEN: "s3cret" } }).message).toBe(
      "/app/quartermaster.yaml:1:16 store.path: the environment variable DATA is not set, or is empty",
    );
  });

  test("to an unset secret is accepted, because it cannot leak", () => {
    const { config, references } = parse(text, { env: { DATA: "/data", TOKEN: "" } });

    expect(config.secrets).toEqual([`\${env:TOKEN}`]);
    expect(references).toHaveLength(2);
  });
});

describe("a rule's expression", () => {
  const text = "policy:\n  rules:\n    - name: a\n      rule: tool.tags\n      effect: deny\n";

  test("is compiled while loading", () => {
    const compiled: string[] = [];

    parse(text, { compileExpression: (expression) => compiled.push(expression) });

    expect(compiled).toEqual(["tool.tags"]);
  });

  test("is a problem at its place when it does not compile, for any thrown value", () => {
    for (const thrown of [new QmError("invalid_expression", "gives a list"), "gives a list"]) {
      const compileExpression = () => {
        throw thrown;
      };
      expect(errorOf(text, { compileExpression })).toMatchObject({
        code: "invalid_config",
        message: "/app/quartermaster.yaml:4:13 policy.rules[0].rule: gives a list",
      });
    }
  });
});

describe("every file loads or throws invalid_config", () => {
  const loadsOrRefuses = (bytes: Uint8Array) => {
    try {
      parseConfig(bytes, "/q.yaml", { env: {} });
    } catch (thrown) {
      expect(thrown).toBeInstanceOf(QmError);
      expect(thrown).toMatchObject({ code: "invalid_config" });
      JSON.stringify((thrown as QmError).toProblem());
    }
  };
  const word = fc.constantFrom(
    ...["store", "path", "providers", "file", "policy", "rules", "rule", "name", "effect", "budgets", "turn", "calls"],
    ...["actors", "default", "tools", "attributes", "surface", "kind", "limits", "secrets", "constructor", "deny"],
  );
  const scalar = fc.oneof(word, fc.string(), fc.double(), fc.boolean(), fc.constant(null), fc.constant(`\${env:X}`));
  const { tree } = fc.letrec((tie) => ({
    tree: fc.oneof(
      { depthSize: "medium", withCrossShrink: true },
      scalar,
      fc.array(tie("tree"), { maxLength: 3 }),
      fc.dictionary(word, tie("tree"), { maxKeys: 4 }),
    ),
  }));

  test("made of known keys", () => {
    fc.assert(
      fc.property(fc.dictionary(word, tree), (value) => loadsOrRefuses(Buffer.from(stringify(value)))),
      { numRuns: 500 },
    );
  });

  test("made of any YAML value", () => {
    fc.assert(
      fc.property(fc.anything({ withDate: true, withMap: true, withSet: true }), (value) => {
        loadsOrRefuses(Buffer.from(stringify(value) ?? ""));
      }),
      { numRuns: 500 },
    );
  });

  test("made of YAML syntax", () => {
    const sign = fc.constantFrom(
      ..."-?:,[]{}#&*!|>'\"%@` \n\t\r~=<.01ae\\\uFEFF",
      "---\n",
      "store",
      "<<",
      "!!",
      ": ",
      "- ",
    );

    fc.assert(
      fc.property(fc.string({ unit: sign, maxLength: 60 }), (text) => loadsOrRefuses(Buffer.from(text))),
      { numRuns: 3000 },
    );
  });

  test("made of random bytes", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), loadsOrRefuses), { numRuns: 1000 });
  });
});
