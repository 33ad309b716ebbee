import { z } from "zod";
import { isRecord } from "../core/json.ts";
import { findReferenceProblem, hasReferenceSyntax } from "./references.ts";

/** Schemas whose key in the file is not the option's name in snake_case. */
export const fileKeys = z.registry<{ readonly key: string }>();

/**
 * Text schemas that take `${env:NAME}` and `${secret:NAME}`. All other texts refuse them: nothing would fill them.
 * `isChecked`: the schema itself says what is wrong with a reference.
 */
export const referenceTexts = z.registry<{ readonly isChecked: boolean }>();

type Path = readonly PropertyKey[];
type ParsedFile<T> =
  | { readonly success: true; readonly data: T }
  | { readonly success: false; readonly issues: readonly z.core.$ZodIssue[] };

/**
 * Checks a value as the file has it: keys in snake_case, texts with references. The data has the keys of the schema, the
 * paths of the issues those of the file.
 */
export function parseFileValue<S extends z.ZodType>(
  schema: S,
  value: unknown,
  error?: (issue: z.core.$ZodRawIssue) => string | undefined,
): ParsedFile<z.output<S>> {
  const issues: z.core.$ZodIssue[] = [];
  const parsed = schema.safeParse(toOptionKeys(schema, value, [], issues), error && { error });
  if (parsed.success && issues.length === 0) return { success: true, data: parsed.data };
  const reported = new Set(issues.map(({ path }) => path.join("\0")));
  issues.push(...(parsed.error?.issues ?? []).filter(({ path }) => !reported.has(path.join("\0"))));
  return {
    success: false,
    issues: issues.map((issue) => ({
      ...issue,
      path: toFilePath(schema, issue.path),
      ...("keys" in issue ? { keys: issue.keys.map((key) => key.slice(UNKNOWN.length)) } : {}),
    })) as z.core.$ZodIssue[],
  };
}

/** The keys that the mapping at a path of the file may have. Empty where every name may stand. */
export function listFileKeys(schema: z.ZodType, path: Path): readonly string[] {
  const shape = getShape(
    path.reduce<z.ZodType | undefined>((at, segment) => at && getPart(at, toOptionKey(at, segment)), schema),
  );
  return Object.entries(shape).map(([key, part]) => toFileKey(key, part));
}

/** The names of the options in the object at a path. */
export function listOptionKeys(schema: z.ZodType, path: Path): readonly string[] {
  return Object.keys(getShape(path.reduce<z.ZodType | undefined>((at, segment) => at && getPart(at, segment), schema)));
}

/** The key of an option in the file. */
export function toFileKey(option: string, schema?: z.ZodType): string {
  const own = schema && fileKeys.get(unwrap(schema))?.key;
  return own ?? option.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

// Marks keys that the schema does not have, so that an option's name in camelCase is unknown in the file.
const UNKNOWN = "?";

function toOptionKeys(schema: z.ZodType, value: unknown, path: Path, issues: z.core.$ZodIssue[]): unknown {
  const inner = unwrap(schema, value);
  if (typeof value === "string" && inner instanceof z.ZodString) {
    const message = checkReferences(value, referenceTexts.get(inner));
    if (message !== undefined) issues.push({ code: "custom", path: [...path], message, input: value });
    return value;
  }
  const convert = (key: PropertyKey, item: unknown) => {
    const part = getPart(inner, key);
    return part === undefined ? item : toOptionKeys(part, item, [...path, key], issues);
  };
  if (Array.isArray(value)) return value.map((item, index) => convert(index, item));
  if (!isRecord(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      const option = toOptionKey(inner, key);
      return [option, convert(option, item)];
    }),
  );
}

function checkReferences(text: string, taken: { readonly isChecked: boolean } | undefined): string | undefined {
  if (taken === undefined) return hasReferenceSyntax(text) ? "a reference cannot be used here" : undefined;
  return taken.isChecked ? undefined : findReferenceProblem(text);
}

function toOptionKey(schema: z.ZodType, key: PropertyKey): string {
  const inner = unwrap(schema, {});
  if (!(inner instanceof z.ZodObject)) return String(key);
  const [option] = Object.entries<z.ZodType>(inner.shape).find(([name, part]) => toFileKey(name, part) === key) ?? [];
  return option ?? UNKNOWN + String(key);
}

function toFilePath(schema: z.ZodType, path: Path): PropertyKey[] {
  let at: z.ZodType | undefined = schema;
  return path.map((segment) => {
    const part: z.ZodType | undefined = at && getPart(at, segment);
    const isOption = at !== undefined && Object.hasOwn(getShape(at), segment);
    at = part;
    return isOption ? toFileKey(String(segment), part) : segment;
  });
}

function getPart(schema: z.ZodType, key: PropertyKey): z.ZodType | undefined {
  const inner = unwrap(schema, typeof key === "number" ? [] : {});
  if (inner instanceof z.ZodArray) return inner.element as z.ZodType;
  if (inner instanceof z.ZodRecord) return inner.valueType as z.ZodType;
  const shape = getShape(inner);
  return Object.hasOwn(shape, key) ? shape[String(key)] : undefined;
}

function getShape(schema: z.ZodType | undefined): Readonly<Record<string, z.ZodType>> {
  const inner = schema && unwrap(schema, {});
  return inner instanceof z.ZodObject ? inner.shape : {};
}

/** The schema below defaults and the like; of alternatives, the one for such a value. */
function unwrap(schema: z.ZodType, value?: unknown): z.ZodType {
  if (schema instanceof z.ZodPipe) return unwrap(schema.in as z.ZodType, value);
  if (schema instanceof z.ZodUnion) {
    const options = schema.options.map((option) => unwrap(option as z.ZodType, value));
    const kind = typeof value === "string" ? z.ZodString : z.ZodObject;
    return options.find((option) => option instanceof kind) ?? schema;
  }
  const isWrapper =
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault ||
    schema instanceof z.ZodNullable;
  return isWrapper ? unwrap(schema.unwrap() as z.ZodType, value) : schema;
}
