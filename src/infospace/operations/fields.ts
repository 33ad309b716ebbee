import { QmError } from "../../core/errors.ts";
import { isRecord, type Json } from "../../core/json.ts";
import { didYouMean } from "../../core/nearest.ts";
import { kindOf, shownKey } from "../content.ts";
import type { Found, Path } from "../path.ts";

const LOOKED_AT = 100;
const REMEMBERED = 1_000;
const NAMED = 20;

/** The names of the fields of the first items, for whoever asked for one that is not there. */
export interface FieldNames {
  take(content: Json): void;
  /** `they have: id, status`, and the name that was likely meant. */
  told(asked?: string): string;
}

export function createFieldNames(): FieldNames {
  const names = new Set<string>();
  const kinds = new Set<string>();
  let looked = 0;
  return {
    take(content) {
      if (looked === LOOKED_AT) return;
      looked++;
      kinds.add(kindOf(content));
      if (!isRecord(content)) return;
      for (const name of Object.keys(content)) if (names.size < REMEMBERED) names.add(name);
    },
    told(asked) {
      if (names.size === 0) return `they have no fields: each is ${[...kinds].map(aKind).join(" or ")}`;
      const more = names.size > NAMED ? `, and ${names.size - NAMED} more` : "";
      const listed = [...names].slice(0, NAMED).map(shownKey).join(", ");
      return `they have: ${listed}${more}${asked === undefined ? "" : didYouMean(asked, names)}`;
    },
  };
}

/** `a string`, `an object`, `null`. */
export function aKind(kind: string): string {
  if (kind === "null") return kind;
  return `${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind}`;
}

/** Whether any item has something at a path; null is something. */
export interface Presence {
  take(content: Json, found: Found): void;
  /** Throws `not_found`, with what there is, where items came and none has it. */
  require(whose?: string): void;
}

export function createPresence({ text, steps }: Path, hint?: string): Presence {
  const names = createFieldNames();
  let isThere = false;
  let first: string | undefined;
  return {
    take(content, found) {
      if (isThere || found.found) {
        isThere = true;
        return;
      }
      first ??= found.missing;
      names.take(content);
    },
    require(whose = "") {
      if (isThere || first === undefined) return;
      const [name] = steps;
      const why = steps.length === 1 && typeof name === "string" ? names.told(name) : first;
      throw new QmError("not_found", `no item${whose} has ${shownKey(text)}: ${why}`, {
        details: { path: text },
        ...(hint === undefined ? {} : { hint }),
      });
    },
  };
}
