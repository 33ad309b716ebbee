import { expect, test } from "vitest";
import { offer, tool } from "../../../test/support/manifests.ts";
import type { JsonObject } from "../../core/json.ts";
import type { OfferedTool } from "./offer.ts";
import { limitOffer, offerLimits } from "./offer.ts";

const names = (tools: readonly { readonly name?: unknown }[]) => tools.map(({ name }) => name);

test("keeps an ordinary offer unchanged", () => {
  const whole = {
    ...offer(tool("a"), tool("b", "text", { icons: [{ src: "x" }], _meta: { k: 1 } })),
    instructions: "Use it well.",
    resources: [{ uri: "x:1" }],
    prompts: [{ name: "p" }],
  };

  expect(limitOffer(whole)).toEqual({ offer: whole, problems: [] });
});

test("leaves out and reports only items that are too large or too deep", () => {
  let deep: JsonObject = {};
  for (let depth = 0; depth < 100_000; depth++) deep = { properties: { deep } };
  const wide = Object.fromEntries(Array.from({ length: offerLimits.nodes }, (_, at) => [`p${at}`, {}]));

  const { offer: bounded, problems } = limitOffer({
    ...offer(
      tool("good"),
      tool("long", "x".repeat(5 * 1024 * 1024)),
      tool("deep", "", { inputSchema: deep }),
      tool("wide", "", { inputSchema: { properties: wide } }),
      tool("n".repeat(257)),
      tool("also good"),
    ),
    serverInfo: { name: "s", deep },
    instructions: "x".repeat(offerLimits.instructionsLength + 1),
    resources: [{ uri: "good:" }, { uri: "x".repeat(300_000) }],
  });

  expect(names(bounded.tools)).toEqual(["good", "also good"]);
  expect(bounded.resources).toEqual([{ uri: "good:" }]);
  expect(bounded.serverInfo).toEqual({});
  expect(bounded.instructions?.length).toBe(offerLimits.instructionsLength);
  expect(problems).toEqual([
    expect.stringContaining("its instructions have 65537 characters"),
    expect.stringContaining("serverInfo was left out"),
    'tool "long" was left out: it is too large or too deep',
    'tool "deep" was left out: it is too large or too deep',
    'tool "wide" was left out: it is too large or too deep',
    expect.stringMatching(/^tool "n+…" was left out: it has a name of 257 characters$/),
    "resource number 2 was left out: it is too large or too deep",
  ]);
});

test("leaves out malformed tools", () => {
  const odd = [
    null,
    "text",
    { name: 5, inputSchema: {} },
    { name: "", inputSchema: {} },
    { name: "no schema" },
    { name: "list", inputSchema: [] },
    { name: "title", inputSchema: {}, title: {} },
    { name: "description", inputSchema: {}, description: 5 },
    { name: "output", inputSchema: {}, outputSchema: "x" },
    { name: "annotations", inputSchema: {}, annotations: [] },
    { name: "bad\u001b[2J", inputSchema: 1 },
    tool("good"),
  ] as unknown as OfferedTool[];

  const { offer: bounded, problems } = limitOffer(offer(...odd));

  expect(names(bounded.tools)).toEqual(["good"]);
  expect(problems).toHaveLength(odd.length - 1);
  expect(problems.at(-1)).toBe('tool "bad\\u001b[2J" was left out: it has no inputSchema');
});

test("limits the number of tools", () => {
  const many = Array.from({ length: 10_000 }, (_, at) => tool(`t${at}`));

  const { offer: bounded, problems } = limitOffer(offer(...many));

  expect(bounded.tools).toHaveLength(offerLimits.tools);
  expect(problems).toEqual([`it offers 10000 tools; only the first ${offerLimits.tools} were taken`]);
});

test("limits the total size and the number of problems", () => {
  const large = Array.from({ length: 200 }, (_, at) => tool(`t${at}`, "x".repeat(100_000)));

  const { offer: bounded, problems } = limitOffer(offer(...large, tool("small")));

  expect(bounded.tools.length).toBe(Math.floor(offerLimits.totalLength / 100_020) + 1);
  expect(names(bounded.tools)).toContain("small");
  expect(problems).toHaveLength(21);
  expect(problems[0]).toContain("exceeds the limit on the whole offer");
  expect(problems.at(-1)).toMatch(/^and \d+ more were left out$/);
});
