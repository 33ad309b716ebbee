import type { Json } from "../../core/json.ts";
import { isList } from "../content.ts";
import { type Path, type Step, valueAt } from "../path.ts";
import { createReasons, type Derived, type Inputs, type Reason } from "./derived.ts";

/** What becomes of an item that has not all of the fields: it goes, it gets null in their place, or it goes without them. */
export const whenMissing = ["omit", "null", "drop"] as const;

export interface Projection {
  /**
   * Paths keep the shape: what comes out is the item with only these parts left, lists with only these positions. By new
   * names, each value lies directly under its name.
   */
  readonly fields: readonly Path[] | ReadonlyMap<string, Path>;
  readonly missing: (typeof whenMissing)[number];
}

export type Projected = {
  readonly input: number;
  readonly dropped: number;
  /** The paths that not every item has, with the first item that has not. */
  readonly missing: readonly ({ readonly path: string; readonly count: number } & Reason)[];
};

/** An item of which nothing is left is dropped, whatever is asked for. */
export function project(inputs: Inputs, { fields, missing }: Projection): Derived<Projected> {
  const asked = [...fields.entries()].map(([name, path]) => ({ name, path, lacking: 0, first: createReasons() }));
  const isRenaming = !Array.isArray(fields);
  let input = 0;
  let dropped = 0;

  function projected(content: Json, position: number): Json | undefined {
    const tree: Branch = { parts: new Map() };
    let isWhole = true;
    for (const field of asked) {
      const at = isRenaming ? [field.name] : settled(content, field.path.steps);
      const found = valueAt(content, field.path);
      if (found.found) {
        put(tree, at, found.value);
        continue;
      }
      isWhole = false;
      field.lacking++;
      field.first.add(position, found.missing);
      if (missing === "null") put(tree, at, null);
    }
    if (missing === "drop" && !isWhole) return undefined;
    return grown(tree, isRenaming ? undefined : content);
  }

  async function* items() {
    for await (const { content } of inputs) {
      const made = projected(content, input++);
      if (made === undefined) dropped++;
      else yield { content: made };
    }
  }

  return {
    items: items(),
    report: () => ({
      input,
      dropped,
      missing: asked.flatMap(({ path, lacking, first }) =>
        first
          .first()
          .slice(0, 1)
          .map((reason) => ({ path: path.text, count: lacking, ...reason })),
      ),
    }),
  };
}

export type Plucked = {
  readonly input: number;
  readonly dropped: number;
  readonly missing: readonly Reason[];
};

/** The value at the path of each item; null is one. */
export function pluck(inputs: Inputs, path: Path): Derived<Plucked> {
  const reasons = createReasons();
  let input = 0;
  let dropped = 0;

  async function* items() {
    for await (const { content } of inputs) {
      const position = input++;
      const found = valueAt(content, path);
      if (found.found) {
        yield { content: found.value };
      } else {
        dropped++;
        reasons.add(position, found.missing);
      }
    }
  }

  return { items: items(), report: () => ({ input, dropped, missing: reasons.first() }) };
}

/** A value that is grown part by part: one that is there, or what lies below. */
type Part = { readonly value: Json } | Branch;
interface Branch {
  readonly parts: Map<Step, Part>;
}

/** What was put at a place whole stays whole, and takes the place of parts. */
function put(tree: Branch, steps: readonly Step[], value: Json): void {
  let at = tree;
  for (const step of steps.slice(0, -1)) {
    const present = at.parts.get(step);
    if (present !== undefined && "value" in present) return;
    const next: Branch = present ?? { parts: new Map() };
    at.parts.set(step, next);
    at = next;
  }
  at.parts.set(steps.at(-1) ?? WHOLE, { value });
}

/** The last step of the empty path: everything, beside which nothing else counts. */
const WHOLE = Number.NaN;

/** The kind of what was there decides where both names and positions were asked for. */
function grown(part: Part, was: Json | undefined): Json | undefined {
  if ("value" in part) return part.value;
  const whole = part.parts.get(WHOLE);
  if (whole !== undefined) return grown(whole, was);
  const [first] = part.parts.keys();
  if (first === undefined) return undefined;
  const isPositions = was !== null && typeof was === "object" ? isList(was) : typeof first === "number";
  const entries = [...part.parts]
    .filter(([step]) => (typeof step === "number") === isPositions)
    .map(([step, each]): [Step, Json] => {
      const below = was === undefined ? undefined : valueAt(was, { steps: [step] });
      return [step, grown(each, below?.found ? below.value : undefined) ?? null];
    });
  if (isPositions) return entries.sort(([a], [b]) => Number(a) - Number(b)).map(([, each]) => each);
  return Object.fromEntries(entries);
}

/** Positions from the end as positions from the start, so that the same one is not taken for two. */
function settled(content: Json, steps: readonly Step[]): readonly Step[] {
  if (!steps.some((step) => typeof step === "number" && step < 0)) return steps;
  return steps.map((step, index) => {
    if (typeof step !== "number" || step >= 0) return step;
    const list = valueAt(content, { steps: steps.slice(0, index) });
    return list.found && isList(list.value) ? list.value.length + step : step;
  });
}
