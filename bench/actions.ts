import type { Action, Provider, TagRule } from "../src/index.ts";
import type { Library } from "./built.ts";

const verbs =
  "get list find create update delete send archive export import merge assign close open approve reject sync copy move tag";
const nouns =
  "invoice customer order ticket contract payment shipment refund product price employee team project task budget report campaign lead account license device server network backup document folder image video message channel meeting calendar event booking vendor supplier warehouse stock asset vehicle route visit claim policy quote review survey comment note label rule";
const looking = new Set(["get", "list", "find", "export"]);
const tags = ["destructive", "billing", "internal", "beta", "pii"];

/** A word that occurs in `RARE_COUNT` descriptions, however many actions there are. */
export const RARE = "quokka";
export const RARE_COUNT = 5;

/** `count` different actions whose words repeat, as in large catalogs: 20 verbs, 50 nouns, then areas. */
export function manyActions({ defineAction }: Library, category: string, count: number): readonly Action[] {
  const does = verbs.split(" ");
  const things = nouns.split(" ");
  return Array.from({ length: count }, (_, index) => {
    const verb = does[index % does.length] ?? "";
    const noun = things[Math.floor(index / does.length) % things.length];
    const area = Math.floor(index / (does.length * things.length));
    const rare = index % Math.ceil(count / RARE_COUNT) === 0 ? ` Named ${RARE} once.` : "";
    return defineAction(category, {
      entry: `${verb}_${noun}_area${area}`,
      description: `Will ${verb} a ${noun} of area ${area} for the one who asks.${rare} Gives the ${noun} back.`,
      effect: looking.has(verb) ? "read" : "write",
      tags: index % 7 === 0 ? [tags[index % tags.length] ?? ""] : [],
      input: {
        type: "object",
        properties: {
          id: { type: "string", description: `Which ${noun}` },
          limit: { type: "integer", minimum: 1, maximum: 100 },
          reason: { type: "string", description: "Why, for the record" },
        },
        required: ["id"],
      },
      run: () => null,
    });
  });
}

export function providerOf(category: string, actions: readonly Action[]): Provider {
  return { category, capability: "Work with the data of a company.", list: () => actions };
}

export const fiveRules: readonly TagRule[] = [
  { rule: "'destructive' in tool.tags && actor.scope != 'admin'", effect: "hide" },
  { rule: "'internal' in tool.tags && ctx.tenant != 'acme'", effect: "hide" },
  { rule: "tool.effect == 'write' && 'billing' in tool.tags", effect: "ask" },
  { rule: "'beta' in tool.tags && actor.scope == 'support'", effect: "deny" },
  { rule: "tool.category == 'payments' && !('approved' in tool.tags)", effect: "hide" },
];
