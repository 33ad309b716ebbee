import type { JsonSchema } from "./action.ts";
import { messageOf, QmError } from "./errors.ts";
import { clip } from "./json.ts";
import { type Mismatch, SchemaChecker } from "./json-schema.ts";
import { guardSchema, type SchemaUse } from "./schema-guard.ts";
import { WORK_LIMIT, WorkExceeded } from "./work.ts";

/**
 * Checks a value; arguments also get the schema's defaults filled in, in place. No mismatch means that it fits. Throws
 * `unsafe_schema` when the schema cannot be used, and `not_evaluated` when the check reaches its work limit. `size` is the
 * length of the value's JSON.
 */
export type Validator = (value: unknown, size: number) => readonly Mismatch[];

const validators = {
  arguments: new WeakMap<JsonSchema, Validator>(),
  result: new WeakMap<JsonSchema, Validator>(),
};

/** The validator of a schema, made when first asked for and kept as long as the schema object lives. */
export function validatorOf(schema: JsonSchema, use: SchemaUse): Validator {
  let validator = validators[use].get(schema);
  if (validator === undefined) {
    validator = createValidator(schema, use);
    validators[use].set(schema, validator);
  }
  return validator;
}

function createValidator(raw: JsonSchema, use: SchemaUse): Validator {
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
      throw new QmError("unsafe_schema", `the schema cannot be used: ${messageOf(thrown)}`);
    }
  };
}
