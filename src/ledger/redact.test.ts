import fc from "fast-check";
import { expect, test } from "vitest";
import { createEventRedactor } from "./redact.ts";

const redact = createEventRedactor();

test("copies plain JSON unchanged", () => {
  const value = { text: "x", number: 1.5, yes: true, none: null, list: [1, [2, {}]], tokens: 7, max_tokens: 8 };

  expect(redact(value)).toEqual(value);
  expect(redact(value)).not.toBe(value);
});

test("redacts the whole value of a secret field, but not whether it is set", () => {
  expect(
    redact({
      password: "hunter2",
      headers: { Authorization: "x", Cookie: ["a", "b"] },
      apiKey: { id: 1 },
      pin_token: 1234,
      hasPassword: true,
      secret: null,
      token: "",
    }),
  ).toEqual({
    password: "[redacted]",
    headers: { Authorization: "[redacted]", Cookie: "[redacted]" },
    apiKey: "[redacted]",
    pin_token: "[redacted]",
    hasPassword: true,
    secret: null,
    token: "",
  });
});

test("redacts secrets in lists, in name and value pairs, and after an option", () => {
  expect(
    redact({
      api_keys: ["k1", "k2"],
      access_tokens: ["t1"],
      env: [
        { name: "DB_PASSWORD", value: "p1" },
        { key: "API_TOKEN", value: "p2" },
        { name: "HOME", value: "/root" },
      ],
      argv: ["login", "--password", "p3", "--verbose", "yes", "--token-count", "5"],
    }),
  ).toEqual({
    api_keys: "[redacted]",
    access_tokens: "[redacted]",
    env: [
      { name: "DB_PASSWORD", value: "[redacted]" },
      { key: "API_TOKEN", value: "[redacted]" },
      { name: "HOME", value: "/root" },
    ],
    argv: ["login", "--password", "[redacted]", "--verbose", "yes", "--token-count", "5"],
  });
});

test("redacts text that looks like a secret, in values and keys", () => {
  const key = `ghp_${"a1".repeat(18)}`;

  expect(redact([`use ${key} now`, { [key]: 1 }])).toEqual(["use [redacted] now", { "[redacted]": 1 }]);
});

test("redacts known secrets, including later ones and numbers", () => {
  const secrets: string[] = ["correct horse"];
  const knowing = createEventRedactor({ secrets: () => secrets, names: ["ssn"] });

  expect(knowing(["the correct horse!", "482913", 482913, { ssn: 5 }])).toEqual([
    "the [redacted]!",
    "482913",
    482913,
    { ssn: "[redacted]" },
  ]);
  secrets.push("482913");
  expect(knowing(["482913", 482913, 482913n, { 482913: 1 }])).toEqual([
    "[redacted]",
    "[redacted]",
    "[redacted]",
    { "[redacted]": 1 },
  ]);
});

test("redacts a secret that becomes known after its text was recorded", () => {
  const secrets: string[] = [];
  const redact = createEventRedactor({ secrets: () => secrets });

  expect(redact({ note: "hunter2hunter2" })).toEqual({ note: "hunter2hunter2" });
  secrets.push("hunter2hunter2");
  expect(redact({ note: "hunter2hunter2" })).toEqual({ note: "[redacted]" });
  secrets.pop();
  expect(redact({ note: "hunter2hunter2" })).toEqual({ note: "hunter2hunter2" });
});

test("redacts everything when the known secrets cannot be read", () => {
  const failing = createEventRedactor({
    secrets() {
      throw new Error("the vault is closed");
    },
  });

  expect(failing({ anything: 1 })).toBe("[unreadable]");
});

test("describes values that JSON cannot hold", () => {
  const cycle: Record<string, unknown> = { name: "loop" };
  cycle.self = cycle;
  const shared = { x: 1 };

  expect(redact(cycle)).toEqual({ name: "loop", self: "[cycle]" });
  expect(redact([shared, shared])).toEqual([{ x: 1 }, { x: 1 }]);
  expect(redact([undefined, () => 1, Symbol("s"), 10n, 10n ** 400n, Number.NaN, -0])).toEqual([
    ...[null, "[function]", "[symbol]", "10", "[bigint]", "NaN", -0],
  ]);
  expect(redact({ left: undefined, when: new Date(0), never: new Date(Number.NaN) })).toEqual({
    when: "1970-01-01T00:00:00.000Z",
    never: null,
  });
  expect(
    redact([
      new Map<unknown, unknown>([
        ["token", "x"],
        [1, 2],
        [{}, 3],
      ]),
      new Set([1]),
      new Uint8Array(5),
    ]),
  ).toEqual([{ token: "[redacted]", "1": 2, "[object]": 3 }, [1], "[5 bytes]"]);
  expect(redact([new URL("https://a:b@host.example/"), new TypeError("password=x")])).toEqual([
    "https://[redacted]@host.example/",
    { name: "TypeError", message: "password=[redacted]" },
  ]);
  expect(redact(undefined)).toBeNull();
});

test("survives hostile objects", () => {
  const throwing = {
    fine: 1,
    get bad() {
      throw new Error("no");
    },
  };
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const unlistable = new Proxy({}, { ownKeys: () => JSON.parse("not json") });
  const jsonless = {
    toJSON() {
      throw new Error("no");
    },
  };

  expect(redact([throwing, proxy, unlistable, jsonless])).toEqual([
    { fine: 1, bad: "[unreadable]" },
    "[unreadable]",
    "[unreadable]",
    "[unreadable]",
  ]);
  const prototype = redact(JSON.parse('{"__proto__": {"polluted": 1}}'));
  expect(Object.keys(prototype as object)).toEqual(["__proto__"]);
  expect(({} as { polluted?: number }).polluted).toBeUndefined();
});

test("bounds depth, texts and the total size", () => {
  let deep: unknown = "bottom";
  for (let level = 0; level < 100_000; level++) deep = [deep];

  expect(JSON.stringify(redact(deep))).toContain("[too deep]");
  expect(redact("x".repeat(10_000_000))).toBe(`${"x".repeat(8192)}… [cut: 10000000 characters in all]`);
  const many = redact(Array.from({ length: 100_000 }, (_, at) => ({ at, text: "hello world" })));
  expect(JSON.stringify(many).length).toBeLessThan(250_000);
  expect(JSON.stringify(many)).toMatch(/\[cut: \d+ more\]"\]$/);
  const wide = redact(Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`k${at}`, at])));
  expect(JSON.stringify(wide)).toMatch(/"…":"\[cut: \d+ more\]"\}$/);
  expect(JSON.stringify(redact(new Array(4_000_000_000))).length).toBeLessThan(400_000);
});

test("never lets a known secret through, at any place", () => {
  const secret = fc
    .string({ minLength: 6, unit: "binary" })
    .filter((text) => !/[[\]]/.test(text) && !"redacted unreadable".includes(text));
  const hidden = secret.chain((known) => {
    const texts = fc.oneof(
      fc.string(),
      fc.constant(known),
      fc.tuple(fc.string(), fc.string()).map((around) => around.join(known)),
    );
    const value = fc.anything({
      key: texts,
      values: [texts, fc.integer()],
      withMap: true,
      withSet: true,
      withNullPrototype: true,
    });
    return fc.record({ known: fc.constant(known), value });
  });
  fc.assert(
    fc.property(hidden, ({ known, value }) => {
      const written = createEventRedactor({ secrets: () => [known] })(value);
      for (const text of textsOf(written)) expect(text).not.toContain(known);
    }),
  );
});

test("accepts anything and returns JSON", () => {
  const anything = fc.anything({
    ...{ withBigInt: true, withBoxedValues: true, withDate: true, withMap: true, withSet: true, withSparseArray: true },
    ...{ withTypedArray: true, withNullPrototype: true, withObjectString: true, withUnicodeString: true },
  });
  fc.assert(
    fc.property(anything, (value) => {
      const written = redact(value);
      expect(isJson(written)).toBe(true);
      expect(redact(written)).toEqual(written);
    }),
  );
});

function textsOf(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [String(value)];
  return Object.entries(value).flatMap(([key, part]) => [key, ...textsOf(part)]);
}

function isJson(value: unknown): boolean {
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (typeof value !== "object") return Number.isFinite(value);
  return (
    (Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) && Object.values(value).every(isJson)
  );
}

test("redacts a user's password in a list of arguments", () => {
  const redact = createEventRedactor();

  expect(redact(["curl", "-u", "ann:hunter2", "https://x"])).toEqual(["curl", "-u", "[redacted]", "https://x"]);
  expect(redact(["docker", "run", "-u", "1000:1000"])).toEqual(["docker", "run", "-u", "1000:1000"]);
});
