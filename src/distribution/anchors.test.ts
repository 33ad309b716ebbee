import fc from "fast-check";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { Caller } from "../core/caller.ts";
import type { Json } from "../core/json.ts";
import type { AnchorStore } from "./anchors.ts";
import { type Anchors, createAnchorStream, createAnchors } from "./anchors.ts";
import { type Annotations, annotate } from "./annotated-record.ts";
import { about, caller, openAnchorStore, openDistribution } from "./testing.ts";

let store: AnchorStore;
let anchors: Anchors;

beforeEach(async () => {
  store = await openAnchorStore();
  anchors = createAnchors(store);
});

/** What a model is shown of a record. */
async function shown(record: Json, annotations: Annotations, of = caller): Promise<Json> {
  const { distribute, problems } = openDistribution(store, {});
  const { forModel } = await distribute(annotate(record, annotations), { ...about, caller: of });
  expect(problems).toEqual([]);
  return forModel;
}

/** One token with the value behind it. */
async function tokenFor(value: Json, of = caller): Promise<string> {
  const view = (await shown({ price: value }, { price: { composition: "anchored" } }, of)) as {
    readonly price: string;
  };
  return view.price;
}

describe("an anchored value", () => {
  test("becomes a token for the model, the same one for equal values of a field", async () => {
    const record = { items: [{ price: 12.5 }, { price: 12.5 }, { price: 98_765 }], fee: 12.5, name: "Lamp" };
    const annotations: Annotations = {
      "items[].price": { composition: "anchored" },
      fee: { composition: "anchored", label: "Service fee" },
    };

    const first = (await shown(record, annotations)) as { items: { price: string }[]; fee: string; name: string };
    const second = (await shown(record, annotations)) as { items: { price: string }[] };

    const [a, b, c] = first.items.map(({ price }) => price);
    expect(a).toMatch(/^\{\{price:[0-9a-z]{8}\}\}$/);
    expect(first.fee).toMatch(/^\{\{Service_fee:[0-9a-z]{8}\}\}$/);
    expect(b).toBe(a);
    expect(c).not.toBe(a);
    expect(second.items[0]?.price).not.toBe(a);
    expect(first.name).toBe("Lamp");
    expect(JSON.stringify(first)).not.toMatch(/12\.5|98765/);
  });

  test.each<[Json, string]>([
    [12.5, "12.5"],
    [1e21, "1e+21"],
    ['as it is: "q" $& {{x}}', 'as it is: "q" $& {{x}}'],
    ["", ""],
    [null, "null"],
    [false, "false"],
    [{ b: 1, a: ["x"] }, '{"a":["x"],"b":1}'],
  ])("%j is rendered as %s, and filled in as itself", async (value, text) => {
    const token = await tokenFor(value);

    const said = await anchors.render(caller, `It is ${token}, ${token}.`);
    const handed = await anchors.fill(caller, { exact: token, within: `<${token}>`, [token]: [token] });

    expect(said).toEqual({ text: `It is ${text}, ${text}.`, filled: [token], unknown: [] });
    expect(handed.args).toEqual({ exact: value, within: `<${text}>`, [token]: [value] });
    expect(handed.filled).toEqual([token]);
  });

  test("does not contain hidden fields", async () => {
    const view = (await shown(
      { owner: { name: "Ann", phone: "555-0199", pin: 1234, box: { city: "Bern" } } },
      {
        owner: { composition: "anchored" },
        "owner.phone": { hidden: ["llm-session"] },
        "owner.pin": { redacted: ["llm-session"] },
        "owner.box": { composition: "anchored" },
      },
    )) as { readonly owner: string };

    const { args } = await anchors.fill(caller, view.owner);

    expect(args).toEqual({ name: "Ann", pin: "[redacted]", box: { city: "Bern" } });
  });

  test("leaves a text without tokens unchanged", async () => {
    const token = await tokenFor(4711);
    const text = "The price is about 5000.";

    expect(await anchors.render(caller, text)).toEqual({ text, filled: [], unknown: [] });
    expect(token).not.toContain("4711");
  });
});

describe("a token", () => {
  test("is unknown in another session, tenant or actor", async () => {
    const token = await tokenFor(12.5);
    const others: Caller[] = [
      { ...caller, session: "s2" },
      { ...caller, tenant: "t2" },
      { actor: caller.actor, session: caller.session },
      { ...caller, actor: "other" },
    ];

    for (const other of others) {
      const text = `It is ${token}.`;
      expect(await anchors.render(other, text)).toEqual({ text, filled: [], unknown: [token] });
      expect(await anchors.fill(other, { token })).toEqual({ args: { token }, filled: [], unknown: [token] });
    }
    expect((await anchors.render({ ...caller, turn: "t9", user: { id: "u" } }, token)).text).toBe("12.5");
  });

  test("that is unknown stays in the text and is reported once", async () => {
    const token = await tokenFor("Lamp");

    const said = await anchors.render(caller, `{{ user:12345678 }} {{user:12345678}} {{x}} ${token}`);

    expect(said).toEqual({
      text: "{{ user:12345678 }} {{user:12345678}} {{x}} Lamp",
      filled: [token],
      unknown: ["{{user:12345678}}"],
    });
  });

  test("is not filled inside a value", async () => {
    const inner = await tokenFor("secret");
    const outer = await tokenFor(`see ${inner}`);

    expect((await anchors.render(caller, outer)).text).toBe(`see ${inner}`);
    expect((await anchors.fill(caller, [outer])).args).toEqual([`see ${inner}`]);
  });

  test("cannot be repeated beyond the growth limit", async () => {
    const token = await tokenFor("x".repeat(60_000));

    const tooLarge = expect.objectContaining({ code: "too_large" });
    await expect(anchors.render(caller, token.repeat(200))).rejects.toEqual(tooLarge);
    await expect(
      anchors.fill(
        caller,
        Array.from({ length: 200 }, () => token),
      ),
    ).rejects.toEqual(tooLarge);
    expect((await anchors.render(caller, token.repeat(100))).text).toHaveLength(6_000_000);
  });
});

describe("arguments", () => {
  test("without braces are returned unchanged, without reading the store", async () => {
    const read = vi.spyOn(store, "read");
    const args = { a: ["x", { b: "{ {" }], n: 1, none: null };

    const answer = await anchors.fill(caller, args);
    await anchors.fill(caller, "{{no token}}");
    await anchors.render(caller, "no { token");

    expect(answer.args).toBe(args);
    expect(read).not.toHaveBeenCalled();
  });

  test("keep names such as __proto__", async () => {
    const token = await tokenFor(7);
    const args = JSON.parse(`{"__proto__": {"polluted": "${token}"}, "constructor": "${token}"}`) as Json;

    const filled = await anchors.fill(caller, args);

    expect(JSON.stringify(filled.args)).toBe('{"__proto__":{"polluted":7},"constructor":7}');
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  test("that are not JSON are left to the validation", async () => {
    const token = await tokenFor(7);
    const cycle: Record<string, unknown> = { token };
    cycle.self = cycle;
    const trap = {
      token,
      get boom() {
        throw new Error("no");
      },
    };

    let deep: unknown = token;
    for (let depth = 0; depth < 20_000; depth++) deep = [deep];
    for (const args of [deep, cycle, trap, undefined, null, 7n, () => token]) {
      expect((await anchors.fill(caller, args)).args).toBe(args);
    }
  });
});

describe("a stream", () => {
  test("renders the same as the whole text, wherever it is cut", async () => {
    const tokens = [await tokenFor(12.5), await tokenFor("Lamp {{"), "{{user:12345678}}"];
    const pieces = fc.array(fc.constantFrom(...tokens, "{", "{{", "}}", " ", "a:", "{{price:", "text"), {
      maxLength: 12,
    });
    await fc.assert(
      fc.asyncProperty(pieces, fc.array(fc.nat(60), { maxLength: 20 }), async (parts, cuts) => {
        const text = parts.join("");
        const stream = createAnchorStream(anchors, caller);
        let said = "";
        let at = 0;
        for (const length of cuts) {
          said += await stream.push(text.slice(at, at + length));
          at += length;
        }
        said += await stream.push(text.slice(at));
        said += await stream.end();

        const whole = await anchors.render(caller, text);
        expect(said).toBe(whole.text);
        expect([...stream.unknown()].sort()).toEqual([...whole.unknown].sort());
      }),
      { numRuns: 300 },
    );
  });

  test("holds back only an incomplete token", async () => {
    const token = await tokenFor(12.5);
    const stream = createAnchorStream(anchors, caller);

    expect(await stream.push(`It is ${token.slice(0, 5)}`)).toBe("It is ");
    expect(await stream.push(token.slice(5, -1))).toBe("");
    expect(await stream.push(`${token.slice(-1)}, is`)).toBe("12.5, is");
    expect(await stream.push(" {{not a token")).toBe(" {{not a token");
    expect(await stream.push("{{tok")).toBe("");
    expect(await stream.end()).toBe("{{tok");
  });

  test("keeps the order of concurrent pushes", async () => {
    const token = await tokenFor(12.5);
    const stream = createAnchorStream(anchors, caller);

    const said = await Promise.all([...`a ${token} b`].map((letter) => stream.push(letter)));

    expect(said.join("") + (await stream.end())).toBe("a 12.5 b");
  });
});
