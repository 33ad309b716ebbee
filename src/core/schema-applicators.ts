import { clip, getOrCreate, isRecord } from "./json.ts";
import { didYouMean } from "./nearest.ts";
import { getDefault, STEP_WORK } from "./schema-assertions.ts";
import type { KeywordCheckers, SchemaChecker, SchemaLocation, SchemaObject } from "./schema-validator.ts";

/** The keywords that contain schemas, in the order in which they are checked. */
export const applicatorKeywords: KeywordCheckers = {
  $ref: checkReference,
  $dynamicRef: checkReference,
  $recursiveRef: checkReference,
  prefixItems: checkEach,
  items(checker, wanted, place, { prefixItems }) {
    if (Array.isArray(wanted)) checkEach(checker, wanted, place);
    else checkRemainingItems(checker, toArray(prefixItems).length, wanted, place);
  },
  additionalItems(checker, wanted, place, { items }) {
    if (Array.isArray(items)) checkRemainingItems(checker, items.length, wanted, place);
  },
  contains(checker, wanted, place, { minContains: least = 1, maxContains: most = Number.POSITIVE_INFINITY }) {
    if (!Array.isArray(place.value)) return;
    const found = place.value.filter((_, index) => checker.accepts(wanted, toChild(place, index))).length;
    if (found >= Number(least) && found <= Number(most)) return;
    checker.report(place, `must contain at least ${least} valid item(s)`);
  },
  dependentRequired: checkDependencies,
  dependencies: checkDependencies,
  propertyNames(checker, wanted, place) {
    for (const value of listFieldNames(checker, place.value)) checker.fits(wanted, { ...place, value, fills: false });
  },
  additionalProperties(checker, wanted, place, schema) {
    if (wanted === true) return;
    const isKnown = createFieldTest(checker, schema);
    for (const name of listFieldNames(checker, place.value)) {
      if (isKnown(name)) continue;
      if (wanted !== false) checker.fits(wanted, toChild(place, name));
      else {
        const unknown = describeUnknownField(checker, name, schema.properties);
        checker.report(place, `must NOT have additional properties: ${unknown}`);
      }
    }
  },
  properties(checker, wanted, place) {
    const { value, fills } = place;
    if (!isRecord(value)) return;
    for (const [name, schema] of listEntries(wanted)) {
      checker.spend(1);
      if (!Object.hasOwn(value, name)) {
        const filled = fills ? getDefault(wanted, name) : undefined;
        if (filled === undefined) continue;
        checker.fill(value, name, filled);
      }
      checker.fits(schema, toChild(place, name));
    }
  },
  patternProperties(checker, wanted, place) {
    for (const [source, schema] of listEntries(wanted)) {
      for (const name of listFieldNames(checker, place.value)) {
        if (checker.matches(source, name)) checker.fits(schema, toChild(place, name));
      }
    }
  },
  dependentSchemas: checkDependencies,
  allOf(checker, wanted, place) {
    for (const schema of toArray(wanted)) checker.fits(schema, place);
  },
  anyOf(checker, wanted, place) {
    const branches = [];
    for (const schema of toArray(wanted)) {
      const mismatches = checker.probe(schema, place);
      if (mismatches.length === 0) return;
      branches.push(mismatches);
    }
    for (const mismatches of branches) checker.adopt(mismatches);
  },
  oneOf(checker, wanted, place) {
    if (!Array.isArray(wanted)) return;
    const branches = wanted.map((schema) => checker.probe(schema, place));
    const fitting = branches.filter(({ length }) => length === 0).length;
    if (fitting === 1) return;
    if (fitting === 0) for (const mismatches of branches) checker.adopt(mismatches);
    checker.report(place, "must match exactly one schema in oneOf");
  },
  not(checker, wanted, place) {
    if (checker.accepts(wanted, place)) checker.report(place, "must NOT be valid");
  },
  if(checker, wanted, place, { then: yes = true, else: no = true }) {
    checker.fits(checker.accepts(wanted, place) ? yes : no, place);
  },
  unevaluatedItems(checker, wanted, place, schema) {
    if (!Array.isArray(place.value)) return;
    const seen = collectEvaluated(checker, schema, place, listEvaluatedItems);
    for (const index of place.value.keys()) if (!seen.has(index)) checker.fits(wanted, toChild(place, index));
  },
  unevaluatedProperties(checker, wanted, place, schema) {
    if (!isRecord(place.value)) return;
    const seen = collectEvaluated(checker, schema, place, listEvaluatedProperties);
    for (const name of listFieldNames(checker, place.value)) {
      if (seen.has(name)) continue;
      if (wanted === false) checker.report(place, `must NOT have unevaluated properties: ${JSON.stringify(name)}`);
      else checker.fits(wanted, toChild(place, name));
    }
  },
};

function checkReference(checker: SchemaChecker, wanted: unknown, place: SchemaLocation): void {
  const target = checker.resolve(String(wanted));
  if (target === undefined) throw new RangeError(`the reference ${JSON.stringify(wanted)} points at nothing`);
  checker.fits(target, place);
}

function checkEach(checker: SchemaChecker, schemas: unknown, place: SchemaLocation): void {
  const { length } = toArray(place.value);
  for (const [index, schema] of toArray(schemas).slice(0, length).entries())
    checker.fits(schema, toChild(place, index));
}

function checkRemainingItems(checker: SchemaChecker, from: number, wanted: unknown, place: SchemaLocation): void {
  const { length } = toArray(place.value);
  if (wanted === true || length <= from) return;
  if (wanted === false) checker.report(place, `must NOT have more than ${from} items`);
  else for (let index = from; index < length; index++) checker.fits(wanted, toChild(place, index));
}

/** Checks `dependentRequired`, `dependentSchemas`, and `dependencies` of older drafts, which combines both. */
function checkDependencies(checker: SchemaChecker, wanted: unknown, place: SchemaLocation): void {
  for (const [name, needed] of listEntries(wanted)) {
    checker.spend(1);
    if (!isRecord(place.value) || !Object.hasOwn(place.value, name)) continue;
    if (!Array.isArray(needed)) {
      checker.fits(needed, place);
      continue;
    }
    checker.spend(2 * needed.length);
    for (const other of needed) {
      if (Object.hasOwn(place.value, String(other))) continue;
      checker.report(place, `must have property ${other} when property ${name} is present`);
    }
  }
}

function describeUnknownField(checker: SchemaChecker, name: string, properties: unknown): string {
  const known = listFieldNames(checker, properties);
  checker.spend(known.length * (10 + Math.min(name.length, 256)));
  const takes = known.length === 0 ? "" : `; it takes ${clip(known.join(", "), 150)}`;
  return `${JSON.stringify(clip(name, 60))}${didYouMean(name, known)}${takes}`;
}

const KEY_WORK = 5;

/** The fields or items that this schema, or a branch of it that fits, has a keyword for. */
function collectEvaluated<Key>(
  checker: SchemaChecker,
  root: SchemaObject,
  place: SchemaLocation,
  listOwn: (checker: SchemaChecker, schema: SchemaObject, value: unknown) => Iterable<Key>,
): ReadonlySet<Key> {
  const { value } = place;
  const seen = new Set<Key>();
  const visit = (schema: unknown, isRoot: boolean): void => {
    if (!isRecord(schema)) return;
    checker.spend(STEP_WORK);
    for (const key of listOwn(checker, schema, value)) {
      checker.spend(KEY_WORK);
      seen.add(key);
    }
    const { allOf, anyOf, oneOf, dependentSchemas } = schema;
    if (!isRoot && (schema.unevaluatedItems !== undefined || schema.unevaluatedProperties !== undefined)) {
      for (const key of listKeys(checker, value)) seen.add(key as Key);
    }
    for (const reference of [schema.$ref, schema.$dynamicRef]) {
      if (typeof reference === "string") visit(checker.resolve(reference), false);
    }
    const fitsIf = isRecord(schema.if) && checker.accepts(schema.if, place);
    const dependent = listEntries(dependentSchemas).filter(([name]) => isRecord(value) && Object.hasOwn(value, name));
    const branches = [
      ...[allOf, anyOf, oneOf].flatMap(toArray),
      ...(schema.if === undefined ? [] : fitsIf ? [schema.if, schema.then] : [schema.else]),
      ...dependent.map(([, branch]) => branch),
    ];
    for (const branch of branches) if (checker.accepts(branch, place)) visit(branch, false);
  };
  visit(root, true);
  return seen;
}

function listEvaluatedProperties(checker: SchemaChecker, schema: SchemaObject, value: unknown): readonly string[] {
  const isKnown = createFieldTest(checker, schema);
  return listFieldNames(checker, value).filter((name) => schema.additionalProperties !== undefined || isKnown(name));
}

function listEvaluatedItems(checker: SchemaChecker, schema: SchemaObject, value: unknown): readonly number[] {
  if (!Array.isArray(value)) return [];
  const { prefixItems, items, additionalItems, contains } = schema;
  const tuple = Array.isArray(items) ? items : toArray(prefixItems);
  checker.spend(2 * value.length);
  const isRest = (items !== undefined && !Array.isArray(items)) || additionalItems !== undefined;
  return [...value.keys()].filter((index) => {
    if (isRest || index < tuple.length) return true;
    return contains !== undefined && checker.accepts(contains, { value: value[index], fills: false });
  });
}

function createFieldTest(checker: SchemaChecker, { properties, patternProperties }: SchemaObject) {
  const sources = listEntries(patternProperties).map(([source]) => source);
  return (name: string): boolean =>
    (isRecord(properties) && Object.hasOwn(properties, name)) || sources.some((each) => checker.matches(each, name));
}

function listKeys(checker: SchemaChecker, value: unknown): Iterable<string | number> {
  if (!Array.isArray(value)) return listFieldNames(checker, value);
  checker.spend(KEY_WORK * value.length);
  return value.keys();
}

const listFieldNames = (checker: SchemaChecker, value: unknown): readonly string[] =>
  isRecord(value) ? checker.listNames(value) : [];
const entryLists = new WeakMap<object, readonly [string, unknown][]>();

/** Cached, because the same schema is read for every item of a list. */
const listEntries = (value: unknown): readonly [string, unknown][] =>
  isRecord(value) ? getOrCreate(entryLists, value, () => Object.entries(value)) : [];
const toArray = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const toChild = (parent: SchemaLocation, key: string | number): SchemaLocation => ({
  value: (parent.value as Record<string | number, unknown>)[key],
  parent,
  key,
  fills: parent.fills,
});
