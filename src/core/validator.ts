import { Ajv, type ErrorObject, type Options } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import type { JsonSchema } from "./action.ts";
import { bounded } from "./bounded.ts";
import { messageOf, QmError } from "./errors.ts";
import { clip, isRecord } from "./json.ts";
import { didYouMean } from "./nearest.ts";
import { guardSchema, linearPattern, type SchemaUse } from "./schema-guard.ts";

/** One way in which a value does not fit, for a reader: where, and what was expected there. */
export interface Mismatch {
  /** JSON pointer; the empty string is the whole value. */
  readonly path: string;
  readonly message: string;
}

/**
 * Checks a value; arguments also get the schema's defaults filled in, in place. No mismatch means that it fits. Throws
 * `unsafe_schema` when the schema cannot be used or the check takes too long. `size` is the length of the value's JSON.
 */
export type Validator = (value: unknown, size: number) => readonly Mismatch[];

const COMPILE_MS = 2_000;
const CHECK_MS = 250;
/** Above this many characters of JSON even a harmless schema is checked under the interrupt. */
const LARGE = 16 * 1024;
const CHARACTERS_PER_MS = 10_000;
const MISMATCHES = 8;

const validators = {
  arguments: new WeakMap<JsonSchema, Validator>(),
  result: new WeakMap<JsonSchema, Validator>(),
};

/** The validator of a schema, compiled when first asked for and kept as long as the schema object lives. */
export function validatorOf(schema: JsonSchema, use: SchemaUse): Validator {
  let validator = validators[use].get(schema);
  if (validator === undefined) {
    validator = compiledOrRefusing(schema, use);
    validators[use].set(schema, validator);
  }
  return validator;
}

/** A schema that cannot be used is found out once, not with every call. */
function compiledOrRefusing(schema: JsonSchema, use: SchemaUse): Validator {
  try {
    return compile(schema, use);
  } catch (thrown) {
    return () => {
      throw thrown;
    };
  }
}

function compile(raw: JsonSchema, use: SchemaUse): Validator {
  const { schema, costly } = guardSchema(raw, use);
  let check: ReturnType<Ajv["compile"]>;
  try {
    check = bounded(
      COMPILE_MS,
      () => engine(schema, use).compile(schema),
      () => tooSlow("compile", COMPILE_MS),
    );
  } catch (thrown) {
    throw thrown instanceof QmError
      ? thrown
      : new QmError("unsafe_schema", `the schema cannot be used: ${messageOf(thrown)}`);
  }
  const run = (value: unknown) => (check(value) ? [] : mismatches(check.errors ?? []));

  return (value, size) => {
    try {
      return costly || size > LARGE
        ? bounded(
            timeFor(size),
            () => run(value),
            () => tooSlow("check", timeFor(size)),
          )
        : run(value);
    } catch (thrown) {
      throw thrown instanceof QmError
        ? thrown
        : new QmError("unsafe_schema", `the schema cannot be applied: ${messageOf(thrown)}`);
    }
  };
}

/** A long value takes its time even where nothing is wrong. */
function timeFor(size: number): number {
  return CHECK_MS + Math.round(size / CHARACTERS_PER_MS);
}

/** A fresh engine a schema: `$id`s of unrelated schemas cannot clash, and one that hung takes nothing with it. */
function engine(schema: JsonSchema, use: SchemaUse): Ajv {
  const options: Options = {
    allErrors: true,
    // Which fields there are, for whoever wrote one that there is not.
    verbose: true,
    strict: false,
    validateSchema: false,
    meta: false,
    useDefaults: use === "arguments",
    logger: false,
    code: { regExp },
  };
  const draft7 = typeof schema.$schema === "string" && /draft-0[4-7]/.test(schema.$schema);
  const made = draft7 ? new Ajv(options) : new Ajv2020(options);
  formats.default(made, { mode: "fast" });
  return made as Ajv;
}

/** Linear-time where the engine knows the pattern; else the native one, and then the guard calls the schema costly. */
const regExp = Object.assign((pattern: string, flags: string) => linearPattern(pattern) ?? new RegExp(pattern, flags), {
  code: "linearOrNative",
}) as unknown as NonNullable<NonNullable<Options["code"]>["regExp"]>;

function mismatches(errors: readonly ErrorObject[]): readonly Mismatch[] {
  // A failed branch of anyOf reports each of its parts; the closing "must match" line adds nothing to them.
  const telling = errors.filter((error) => error.keyword !== "if" && error.keyword !== "anyOf");
  return (telling.length > 0 ? telling : errors).slice(0, MISMATCHES).map((error) => ({
    path: clip(error.instancePath, 200),
    message: clip(`${error.message ?? "does not fit"}${allowed(error)}`, 300),
  }));
}

function allowed({ params, parentSchema }: ErrorObject): string {
  if (Array.isArray(params.allowedValues))
    return `: ${params.allowedValues.map((value) => JSON.stringify(value)).join(", ")}`;
  const { additionalProperty: strange } = params;
  if (typeof strange !== "string") return "";
  const known = isRecord(parentSchema?.properties) ? Object.keys(parentSchema.properties) : [];
  const fields = known.length === 0 ? "" : `; it takes ${clip(known.join(", "), 150)}`;
  return `: ${JSON.stringify(clip(strange, 60))}${didYouMean(strange, known)}${fields}`;
}

function tooSlow(step: string, ms: number): QmError {
  return new QmError("unsafe_schema", `the schema took longer than ${ms} ms to ${step} and was stopped`);
}
