import { z } from "zod";
import { isLargerThan, isRecord } from "../core/json.ts";
import { findReferenceProblem, hasReferenceSyntax } from "./references.ts";

/** Schemas whose key in the file is not the option's name in snake_case. */
export const fileKeys = z.registry<{ readonly key: string }>();

/**
 * Text schemas that take references; all others refuse them. `isChecked`: the schema itself reports bad ones.
 * `mayBeSecret`: messages must not repeat the value.
 */
export const referenceTexts = z.registry<{ readonly isChecked: boolean; readonly mayBeSecret?: boolean }>();
const ISSUE_LIMIT = 100;
/** Zod compiles a schema at its first use, which takes longer than to check a file of the usual size. */
const COMPILED_FROM = { nodes: 5_000, depth: 64 };
type Path = readonly PropertyKey[];
type ParsedFile<T> =
  | { readonly success: true; readonly data: T }
  | { readonly success: false; readonly issues: readonly z.core.$ZodIssue[] };

/** Checks a value with the file's snake_case keys. The data has the schema's keys, issues those of the file. */
export function parseFileValue<S extends z.ZodType>(
  schema: S,
  value: unknown,
  error?: (issue: z.core.$ZodRawIssue) => string | undefined,
): ParsedFile<z.output<S>> {
  const found: z.core.$ZodIssue[] = [];
  const context = { jitless: !isLargerThan(value, COMPILED_FROM), ...(error && { error }) };
  const parsed = schema.safeParse(toOptionKeys(schema, value, [], found), context);
  if (parsed.success && found.length === 0) return { success: true, data: parsed.data };
  // A malformed reference often fails other checks of its text too, so only the reference is reported.
  const reported = new Set(found.map(({ path }) => path.join("\0")));
  const others = parsed.error?.issues ?? [];
  const remaining = found.length === 0 ? others : others.filter(({ path }) => !reported.has(path.join("\0")));
  const issues = [...found, ...remaining].slice(0, ISSUE_LIMIT);
  return { success: false, issues: issues.map((issue) => toFileIssue(schema, issue)) };
}

function toFileIssue(schema: z.ZodType, issue: z.core.$ZodIssue): z.core.$ZodIssue {
  const path = toFilePath(schema, issue.path);
  if (issue.code !== "unrecognized_keys") return { ...issue, path };
  const keys = issue.keys.map((key) => key.slice(UNKNOWN.length));
  return { ...issue, path, keys, message: `unknown key ${keys.join(", ")}` };
}

/** The keys that the mapping at a path of the file may have. Empty where every name may stand. */
export function listFileKeys(schema: z.ZodType, path: Path): readonly string[] {
  return [...mapFileKeys(findSchemaAt(schema, path) ?? z.unknown()).keys()].map(String);
}

/** Whether messages must not repeat the value at a path of the file. A list of such values counts too. */
export function mayHoldSecret(schema: z.ZodType, path: Path): boolean {
  const at = findSchemaAt(schema, path);
  const list = at && unwrap(at, []);
  const item = list instanceof z.ZodArray ? (list.element as z.ZodType) : at;
  return item !== undefined && referenceTexts.get(unwrap(item, ""))?.mayBeSecret === true;
}

function findSchemaAt(schema: z.ZodType, path: Path): z.ZodType | undefined {
  const step = (at: z.ZodType | undefined, key: PropertyKey) => at && getPart(at, mapFileKeys(at).get(key) ?? key);
  return path.reduce<z.ZodType | undefined>(step, schema);
}

export function listOptionKeys(schema: z.ZodType, path: Path): readonly string[] {
  const step = (at: z.ZodType | undefined, key: PropertyKey) => at && getPart(at, key);
  return Object.keys(getShape(path.reduce<z.ZodType | undefined>(step, schema)));
}

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
  if (inner instanceof z.ZodRecord) {
    const message = "a reference cannot be used here";
    for (const key of Object.keys(value).filter(hasReferenceSyntax))
      issues.push({ code: "custom", path: [...path, key], message, input: key });
  }
  const options = inner instanceof z.ZodObject ? mapFileKeys(inner) : undefined;
  return Object.fromEntries(
    Object.entries(value).map(([key, item]) => {
      const option = options === undefined ? key : (options.get(key) ?? UNKNOWN + key);
      return [option, convert(option, item)];
    }),
  );
}

function checkReferences(text: string, taken: { readonly isChecked: boolean } | undefined): string | undefined {
  if (taken === undefined) return hasReferenceSyntax(text) ? "a reference cannot be used here" : undefined;
  return taken.isChecked ? undefined : findReferenceProblem(text);
}

const mapFileKeys = (schema: z.ZodType): ReadonlyMap<PropertyKey, string> =>
  new Map(Object.entries(getShape(schema)).map(([option, part]) => [toFileKey(option, part), option]));

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
