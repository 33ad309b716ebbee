import type { JsonSchema } from "./action.ts";
import { BacktrackingPattern } from "./backtracking-pattern.ts";
import { getErrorMessage, QmError } from "./errors.ts";
import { clip, getOrCreate, isRecord } from "./json.ts";
import { LinearPattern } from "./linear-pattern.ts";
import { applicatorKeywords } from "./schema-applicators.ts";
import { assertionKeywords, STEP_WORK } from "./schema-assertions.ts";
import { guardSchema, resolvePointer, type SchemaUse } from "./schema-guard.ts";
import { spend, WORK_LIMIT, type WorkBudget, WorkExceeded } from "./work-budget.ts";

export interface SchemaMismatch {
  /** JSON pointer; the empty string is the whole value. */
  readonly path: string;
  readonly message: string;
}

export type SchemaObject = Readonly<Record<string, unknown>>;

/** A value and its place. Its path is formatted only when a mismatch is reported. */
export interface SchemaLocation {
  readonly value: unknown;
  readonly parent?: SchemaLocation;
  readonly key?: string | number;
  /** Whether defaults are filled in. False inside `anyOf`, `not` and the like, where the branch may not count. */
  readonly fills: boolean;
}

/** Reports mismatches. `wanted` is the keyword's value from an untrusted schema, so it may be anything. */
export type KeywordChecker = (check: SchemaChecker, wanted: unknown, at: SchemaLocation, schema: SchemaObject) => void;

export type KeywordCheckers = Readonly<Record<string, KeywordChecker>>;
const MISMATCH_LIMIT = 8;
const MISMATCH_WORK = 50;
const LARGE_OBJECT = 100;
/** References can nest without end even if the value does not. */
const DEPTH_LIMIT = 400;
/** Ends a check at the mismatch limit. One shared instance, because creating an error is slow. */
const ENOUGH_FOUND = new Error("enough mismatches were found");

/** Interprets one guarded JSON Schema (2020-12 and older spellings) without compiling it, and counts its work. */
export class SchemaChecker {
  readonly #root: JsonSchema;
  readonly #plans = new WeakMap<object, readonly (readonly [KeywordChecker, wanted: unknown])[]>();
  readonly #patterns = new Map<string, LinearPattern | BacktrackingPattern>();
  readonly #anchors = new Map<string, unknown>();
  readonly #targets = new Map<string, unknown>();
  #names = new WeakMap<object, readonly string[]>();
  #budget: WorkBudget = { left: 0 };
  #mismatches: SchemaMismatch[] = [];
  #depth = 0;

  constructor(root: JsonSchema) {
    this.#root = root;
    if (/"\$(?:dynamicA|a)nchor"/.test(JSON.stringify(root))) this.#collectAnchors(root);
  }

  /** `fills` fills in defaults, in place. Throws `WorkExceeded`, and `RangeError` for circular references. */
  check(value: unknown, budget: WorkBudget, fills: boolean): readonly SchemaMismatch[] {
    this.#budget = budget;
    this.#depth = 0;
    this.#names = new WeakMap();
    return this.#collect(this.#root, { value, fills });
  }

  fits(schema: unknown, place: SchemaLocation): void {
    if (schema === false) this.report(place, "boolean schema is false");
    if (!isRecord(schema)) return;
    this.spend(STEP_WORK);
    if (++this.#depth > DEPTH_LIMIT) throw new RangeError("its references lead too deep");
    for (const [keyword, wanted] of this.#plan(schema)) keyword(this, wanted, place, schema);
    this.#depth--;
  }

  /** Checks without reporting and without filling in defaults. */
  probe(schema: unknown, place: SchemaLocation): readonly SchemaMismatch[] {
    const outer = this.#mismatches;
    const depth = this.#depth;
    try {
      return this.#collect(schema, { ...place, fills: false });
    } finally {
      this.#mismatches = outer;
      this.#depth = depth;
    }
  }

  accepts(schema: unknown, place: SchemaLocation): boolean {
    return this.probe(schema, place).length === 0;
  }

  #collect(schema: unknown, place: SchemaLocation): readonly SchemaMismatch[] {
    const mismatches: SchemaMismatch[] = [];
    this.#mismatches = mismatches;
    try {
      this.fits(schema, place);
    } catch (thrown) {
      if (thrown !== ENOUGH_FOUND) throw thrown;
    }
    return mismatches;
  }

  report(place: SchemaLocation, message: string): void {
    this.#add({ path: formatPointer(place), message });
  }

  adopt(mismatches: readonly SchemaMismatch[]): void {
    for (const mismatch of mismatches) this.#add(mismatch);
  }

  #add(mismatch: SchemaMismatch): void {
    this.spend(MISMATCH_WORK);
    if (this.#mismatches.push(mismatch) >= MISMATCH_LIMIT) throw ENOUGH_FOUND;
  }

  spend(units: number): void {
    spend(this.#budget, units);
  }

  /** The field names, cached because listing them is slow for a large object. `fill` invalidates the cache. */
  listNames(value: object): readonly string[] {
    let names = this.#names.get(value);
    if (names === undefined) {
      names = Object.keys(value);
      this.spend(names.length * (names.length > LARGE_OBJECT ? 15 : 2));
      this.#names.set(value, names);
    }
    this.spend(2 * names.length);
    return names;
  }

  /** Adds an own field. Plain assignment would swallow `__proto__`. */
  fill(value: object, name: string, filled: unknown): void {
    Object.defineProperty(value, name, { value: filled, enumerable: true, writable: true, configurable: true });
    this.#names.delete(value);
  }

  matches(source: string, text: string): boolean {
    const pattern = getOrCreate(this.#patterns, source, () => {
      const linear = LinearPattern.compile(source);
      return typeof linear === "string" ? new BacktrackingPattern(source) : linear;
    });
    // The pattern's own price is too low for short texts.
    this.spend(STEP_WORK);
    return pattern.test(text, this.#budget);
  }

  resolve(reference: string): unknown {
    if (reference === "#") return this.#root;
    return getOrCreate(this.#targets, reference, () =>
      reference.startsWith("#/") ? resolvePointer(this.#root, reference) : this.#anchors.get(reference.slice(1)),
    );
  }

  #plan(schema: SchemaObject): readonly (readonly [KeywordChecker, wanted: unknown])[] {
    return getOrCreate(this.#plans, schema, () => {
      // Assertions first, so that a wrong type is reported before mismatches inside the value.
      const keywords = [...Object.entries(assertionKeywords), ...Object.entries(applicatorKeywords)];
      const used = keywords.filter(([name]) => Object.hasOwn(schema, name));
      return used.map(([name, keyword]) => [keyword, schema[name]] as const);
    });
  }

  #collectAnchors(part: unknown): void {
    if (Array.isArray(part)) for (const each of part) this.#collectAnchors(each);
    if (!isRecord(part)) return;
    for (const name of [part.$anchor, part.$dynamicAnchor]) {
      if (typeof name === "string" && !this.#anchors.has(name)) this.#anchors.set(name, part);
    }
    for (const value of Object.values(part)) this.#collectAnchors(value);
  }
}

function formatPointer({ parent, key }: SchemaLocation): string {
  if (parent === undefined) return "";
  return `${formatPointer(parent)}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Also fills in the defaults of arguments. `size`: length of the JSON. Throws `unsafe_schema` and `not_evaluated`. */
type SchemaValidator = (value: unknown, size: number) => readonly SchemaMismatch[];

const validators = {
  arguments: new WeakMap<JsonSchema, SchemaValidator>(),
  result: new WeakMap<JsonSchema, SchemaValidator>(),
};

/** The validator of a schema, cached as long as the schema object lives. */
export const getValidator = (schema: JsonSchema, use: SchemaUse): SchemaValidator =>
  getOrCreate(validators[use], schema, () => createValidator(schema, use));

function createValidator(raw: JsonSchema, use: SchemaUse): SchemaValidator {
  let checker: SchemaChecker;
  try {
    checker = new SchemaChecker(guardSchema(raw, use));
  } catch (thrown) {
    return () => {
      throw thrown;
    };
  }
  return (value, size) => {
    try {
      // A long value may take as long as reading it once more.
      const budget = { left: WORK_LIMIT + size / 2 };
      const mismatches = checker.check(value, budget, use === "arguments");
      return mismatches.map(({ path, message }) => ({ path: clip(path, 200), message: clip(message, 300) }));
    } catch (thrown) {
      if (thrown instanceof WorkExceeded) throw new WorkExceeded("the schema");
      throw new QmError("unsafe_schema", `the schema cannot be used: ${getErrorMessage(thrown)}`);
    }
  };
}
