import type { JsonSchema } from "./action.ts";
import { BacktrackingPattern } from "./backtracking-pattern.ts";
import { getErrorMessage, QmError } from "./errors.ts";
import { clip, isRecord } from "./json.ts";
import { LinearPattern } from "./linear-pattern.ts";
import { applicatorKeywords } from "./schema-applicators.ts";
import { assertionKeywords, STEP_WORK } from "./schema-assertions.ts";
import { guardSchema, resolvePointer, type SchemaUse } from "./schema-guard.ts";
import { spend, WORK_LIMIT, type WorkBudget, WorkExceeded } from "./work-budget.ts";

/** One way in which a value does not fit, for a reader: where, and what was expected there. */
export interface SchemaMismatch {
  /** JSON pointer; the empty string is the whole value. */
  readonly path: string;
  readonly message: string;
}

interface SchemaCheckOptions {
  readonly budget: WorkBudget;
  /** Whether missing fields get the schema's defaults, in place. */
  readonly fillDefaults: boolean;
}

export type SchemaObject = Readonly<Record<string, unknown>>;

/** A value and how it is reached. Paths are written when something is wrong, and mostly nothing is. */
export interface SchemaLocation {
  readonly value: unknown;
  readonly parent?: SchemaLocation;
  readonly key?: string | number;
  /** Inside `anyOf`, `not` and the like nothing is filled in: whether the branch counts is not known yet. */
  readonly fills: boolean;
}

export interface SchemaFindings {
  count: number;
  readonly mismatches: SchemaMismatch[];
}

/** The first so many are told. */
const MISMATCH_LIMIT = 8;
const MISMATCH_WORK = 50;
const LARGE_OBJECT = 100;
/** References can nest without end where the value does not. */
const DEPTH_LIMIT = 400;

/**
 * Checks values against one JSON Schema (2020-12, and what older drafts write differently), which has passed the guard.
 * It interprets the schema instead of compiling it, so that nothing is done for parts that no value reaches, and counts its
 * work as it goes.
 */
export class SchemaChecker {
  readonly #root: JsonSchema;
  readonly #plans = new WeakMap<object, readonly PlannedKeyword[]>();
  readonly #patterns = new Map<string, LinearPattern | BacktrackingPattern>();
  readonly #anchors = new Map<string, unknown>();
  readonly #targets = new Map<string, unknown>();
  #names = new WeakMap<object, readonly string[]>();
  #options: SchemaCheckOptions = { budget: { left: 0 }, fillDefaults: false };
  #findings: SchemaFindings = { count: 0, mismatches: [] };
  #depth = 0;

  constructor(root: JsonSchema) {
    this.#root = root;
    if (/"\$(?:dynamicA|a)nchor"/.test(JSON.stringify(root))) this.#collectAnchors(root);
  }

  /** Throws `WorkExceeded`, and `RangeError` for references that lead in a circle. */
  check(value: unknown, options: SchemaCheckOptions): readonly SchemaMismatch[] {
    this.#options = options;
    this.#findings = { count: 0, mismatches: [] };
    this.#depth = 0;
    this.#names = new WeakMap();
    const found = this.#findings;
    try {
      this.fits(this.#root, { value, fills: options.fillDefaults });
    } catch (thrown) {
      if (thrown !== ENOUGH_FOUND) throw thrown;
    }
    return found.mismatches;
  }

  /** Whether the value fits this part of the schema. What does not is reported. */
  fits(schema: unknown, place: SchemaLocation): boolean {
    if (typeof schema === "boolean") return schema || this.report(place, "boolean schema is false");
    if (!isRecord(schema)) return true;
    this.spend(STEP_WORK);
    if (++this.#depth > DEPTH_LIMIT) throw new RangeError("its references lead too deep");
    const before = this.#findings.count;
    for (const { keyword, wanted } of this.#plan(schema)) keyword(this, wanted, schema, place);
    this.#depth--;
    return this.#findings.count === before;
  }

  /** The same without a report. */
  probe(schema: unknown, place: SchemaLocation): SchemaFindings {
    const outer = this.#findings;
    const depth = this.#depth;
    const inner: SchemaFindings = { count: 0, mismatches: [] };
    this.#findings = inner;
    try {
      this.fits(schema, { ...place, fills: false });
    } catch (thrown) {
      if (thrown !== ENOUGH_FOUND) throw thrown;
    } finally {
      this.#findings = outer;
      this.#depth = depth;
    }
    return inner;
  }

  report(place: SchemaLocation, message: string): false {
    return this.#add({ path: formatPointer(place), message });
  }

  #add(mismatch: SchemaMismatch): false {
    this.spend(MISMATCH_WORK);
    this.#findings.count++;
    this.#findings.mismatches.push(mismatch);
    if (this.#findings.count >= MISMATCH_LIMIT) throw ENOUGH_FOUND;
    return false;
  }

  /** Reports what a branch found. */
  adopt(findings: SchemaFindings): void {
    for (const mismatch of findings.mismatches) this.#add(mismatch);
  }

  spend(units: number): void {
    spend(this.#options.budget, units);
  }

  /** The names of the fields, listed once: of a large object that is dear. Whoever adds a field says so. */
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

  /** Adds a field that is its own, whatever its name: `__proto__` would be swallowed. */
  fill(value: object, name: string, filled: unknown): void {
    Object.defineProperty(value, name, { value: filled, enumerable: true, writable: true, configurable: true });
    this.#names.delete(value);
  }

  matches(source: string, text: string): boolean {
    let pattern = this.#patterns.get(source);
    if (pattern === undefined) {
      const linear = LinearPattern.compile(source);
      pattern = typeof linear === "string" ? new BacktrackingPattern(source) : linear;
      this.#patterns.set(source, pattern);
    }
    // Short texts cost more than the pattern itself charges for.
    this.spend(STEP_WORK);
    return pattern.test(text, this.#options.budget);
  }

  resolve(reference: string): unknown {
    if (reference === "#") return this.#root;
    let target = this.#targets.get(reference);
    if (target === undefined) {
      target = reference.startsWith("#/")
        ? resolvePointer(this.#root, reference)
        : this.#anchors.get(reference.slice(1));
      this.#targets.set(reference, target);
    }
    return target;
  }

  /** The keywords of a part that are checked, in the order of the table. */
  #plan(schema: SchemaObject): readonly PlannedKeyword[] {
    let plan = this.#plans.get(schema);
    if (plan === undefined) {
      plan = [...keywords].flatMap(([name, keyword]) =>
        Object.hasOwn(schema, name) ? [{ keyword, wanted: schema[name] }] : [],
      );
      this.#plans.set(schema, plan);
    }
    return plan;
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

interface PlannedKeyword {
  readonly keyword: KeywordChecker;
  readonly wanted: unknown;
}

function formatPointer({ parent, key }: SchemaLocation): string {
  if (parent === undefined) return "";
  return `${formatPointer(parent)}/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`;
}

/** Ends a check in which as much was found as is told. One for all: making an error takes long. */
const ENOUGH_FOUND = new Error("as much was found as is told");

/** Reports what does not fit. `wanted` is the keyword's own value, from a schema of anybody's: it may be anything. */
export type KeywordChecker = (
  checker: SchemaChecker,
  wanted: unknown,
  schema: SchemaObject,
  place: SchemaLocation,
) => void;

/** In the order in which they are checked: a wrong type is told before what is wrong inside. */
const keywords: ReadonlyMap<string, KeywordChecker> = new Map([...assertionKeywords, ...applicatorKeywords]);

/**
 * Checks a value; arguments also get the schema's defaults filled in, in place. No mismatch means that it fits. Throws
 * `unsafe_schema` when the schema cannot be used, and `not_evaluated` when the check reaches its work limit. `size` is the
 * length of the value's JSON.
 */
type SchemaValidator = (value: unknown, size: number) => readonly SchemaMismatch[];

const validators = {
  arguments: new WeakMap<JsonSchema, SchemaValidator>(),
  result: new WeakMap<JsonSchema, SchemaValidator>(),
};

/** The validator of a schema, made when first asked for and kept as long as the schema object lives. */
export function getValidator(schema: JsonSchema, use: SchemaUse): SchemaValidator {
  let validator = validators[use].get(schema);
  if (validator === undefined) {
    validator = createValidator(schema, use);
    validators[use].set(schema, validator);
  }
  return validator;
}

function createValidator(raw: JsonSchema, use: SchemaUse): SchemaValidator {
  let checker: SchemaChecker;
  try {
    checker = new SchemaChecker(guardSchema(raw, use));
  } catch (thrown) {
    // A schema that cannot be used is found out once, not with every call.
    return () => {
      throw thrown;
    };
  }
  return (value, size) => {
    try {
      // A long value may take as long as reading it once more.
      const budget = { left: WORK_LIMIT + size / 2 };
      const mismatches = checker.check(value, { budget, fillDefaults: use === "arguments" });
      return mismatches.map(({ path, message }) => ({ path: clip(path, 200), message: clip(message, 300) }));
    } catch (thrown) {
      if (thrown instanceof WorkExceeded) throw new WorkExceeded("the schema");
      throw new QmError("unsafe_schema", `the schema cannot be used: ${getErrorMessage(thrown)}`);
    }
  };
}
