import { isRecord } from "./json.ts";
import { didYouMean } from "./nearest.ts";
import { getDefault, STEP_WORK } from "./schema-assertions.ts";
import type {
  KeywordChecker,
  SchemaChecker,
  SchemaFindings,
  SchemaLocation,
  SchemaObject,
} from "./schema-validator.ts";

/** The keywords that have schemas in them. */
export const applicatorKeywords: readonly (readonly [string, KeywordChecker])[] = [
  ["$ref", checkReference],
  ["$dynamicRef", checkReference],
  ["$recursiveRef", checkReference],
  ["prefixItems", (checker, wanted, _schema, place) => checkEach(checker, wanted, place)],
  ["items", checkItems],
  [
    "additionalItems",
    (checker, wanted, { items }, place) => {
      if (Array.isArray(items)) checkRemainingItems(checker, items.length, wanted, place);
    },
  ],
  ["contains", checkContains],
  ["dependentRequired", checkDependencies],
  ["dependencies", checkDependencies],
  [
    "propertyNames",
    (checker, wanted, _schema, place) => {
      for (const name of listFieldNames(checker, place.value))
        checker.fits(wanted, { ...place, value: name, fills: false });
    },
  ],
  ["additionalProperties", checkAdditional],
  ["properties", checkProperties],
  [
    "patternProperties",
    (checker, wanted, _schema, place) => {
      for (const [source, schema] of listEntries(wanted)) {
        for (const name of listFieldNames(checker, place.value)) {
          if (checker.matches(source, name)) checker.fits(schema, toField(place, name));
        }
      }
    },
  ],
  ["dependentSchemas", checkDependencies],
  [
    "allOf",
    (checker, wanted, _schema, place) => {
      for (const schema of Array.isArray(wanted) ? wanted : []) checker.fits(schema, place);
    },
  ],
  ["anyOf", checkAnyOf],
  ["oneOf", checkOneOf],
  [
    "not",
    (checker, wanted, _schema, place) => {
      if (checker.probe(wanted, place).count === 0) checker.report(place, "must NOT be valid");
    },
  ],
  [
    "if",
    (checker, wanted, { then: yes = true, else: no = true }, place) => {
      checker.fits(checker.probe(wanted, place).count === 0 ? yes : no, place);
    },
  ],
  [
    "unevaluatedItems",
    (checker, wanted, schema, place) => {
      if (!Array.isArray(place.value)) return;
      const seen = collectEvaluated(checker, schema, place, listEvaluatedItems);
      for (const index of place.value.keys()) if (!seen.has(index)) checker.fits(wanted, toItem(place, index));
    },
  ],
  [
    "unevaluatedProperties",
    (checker, wanted, schema, place) => {
      if (!isRecord(place.value)) return;
      const seen = collectEvaluated(checker, schema, place, listEvaluatedProperties);
      for (const name of listFieldNames(checker, place.value)) {
        if (seen.has(name)) continue;
        if (wanted === false) checker.report(place, `must NOT have unevaluated properties: ${JSON.stringify(name)}`);
        else checker.fits(wanted, toField(place, name));
      }
    },
  ],
];

function checkReference(checker: SchemaChecker, wanted: unknown, _schema: SchemaObject, place: SchemaLocation): void {
  const target = checker.resolve(String(wanted));
  if (target === undefined) throw new RangeError(`the reference ${JSON.stringify(wanted)} points at nothing`);
  checker.fits(target, place);
}

function checkEach(checker: SchemaChecker, schemas: unknown, place: SchemaLocation): void {
  if (!Array.isArray(place.value) || !Array.isArray(schemas)) return;
  for (const [index, schema] of schemas.entries()) {
    if (index < place.value.length) checker.fits(schema, toItem(place, index));
  }
}

function checkItems(
  checker: SchemaChecker,
  wanted: unknown,
  { prefixItems }: SchemaObject,
  place: SchemaLocation,
): void {
  if (Array.isArray(wanted)) checkEach(checker, wanted, place);
  else checkRemainingItems(checker, Array.isArray(prefixItems) ? prefixItems.length : 0, wanted, place);
}

function checkRemainingItems(checker: SchemaChecker, from: number, wanted: unknown, place: SchemaLocation): void {
  if (!Array.isArray(place.value)) return;
  if (wanted === false && place.value.length > from) {
    checker.report(place, `must NOT have more than ${from} items`);
  } else if (wanted !== true) {
    for (let index = from; index < place.value.length; index++) checker.fits(wanted, toItem(place, index));
  }
}

function checkContains(checker: SchemaChecker, wanted: unknown, schema: SchemaObject, place: SchemaLocation): void {
  if (!Array.isArray(place.value)) return;
  const { minContains: least = 1, maxContains: most = Number.POSITIVE_INFINITY } = schema;
  const found = place.value.filter((_, index) => checker.probe(wanted, toItem(place, index)).count === 0).length;
  if (found >= Number(least) && found <= Number(most)) return;
  checker.report(place, `must contain at least ${least} valid item(s)`);
}

/** `dependentRequired`, `dependentSchemas`, and `dependencies` of older drafts, which is both. */
function checkDependencies(
  checker: SchemaChecker,
  wanted: unknown,
  _schema: SchemaObject,
  place: SchemaLocation,
): void {
  for (const [name, needed] of listEntries(wanted)) {
    checker.spend(1);
    if (!isRecord(place.value) || !Object.hasOwn(place.value, name)) continue;
    if (!Array.isArray(needed)) checker.fits(needed, place);
    else {
      checker.spend(2 * needed.length);
      const missing = needed.filter((other) => !Object.hasOwn(place.value as object, String(other)));
      for (const other of missing)
        checker.report(place, `must have property ${other} when property ${name} is present`);
    }
  }
}

function checkAdditional(checker: SchemaChecker, wanted: unknown, schema: SchemaObject, place: SchemaLocation): void {
  if (wanted === true) return;
  const sources = listEntries(schema.patternProperties).map(([source]) => source);
  for (const name of listFieldNames(checker, place.value)) {
    if (isRecord(schema.properties) && Object.hasOwn(schema.properties, name)) continue;
    if (sources.some((source) => checker.matches(source, name))) continue;
    if (wanted !== false) checker.fits(wanted, toField(place, name));
    else
      checker.report(
        place,
        `must NOT have additional properties: ${describeUnknownField(checker, name, schema.properties)}`,
      );
  }
}

const NAME_LIMIT = 60;

function describeUnknownField(checker: SchemaChecker, name: string, properties: unknown): string {
  const known = isRecord(properties) ? checker.listNames(properties) : [];
  checker.spend(known.length * (10 + Math.min(name.length, 256)));
  const shown = name.length > NAME_LIMIT ? `${name.slice(0, NAME_LIMIT - 1)}…` : name;
  const fields = known.join(", ");
  const takes = known.length === 0 ? "" : `; it takes ${fields.length > 150 ? `${fields.slice(0, 149)}…` : fields}`;
  return `${JSON.stringify(shown)}${didYouMean(name, known)}${takes}`;
}

function checkProperties(checker: SchemaChecker, wanted: unknown, _schema: SchemaObject, place: SchemaLocation): void {
  const { value, fills } = place;
  if (!isRecord(value)) return;
  for (const [name, schema] of listEntries(wanted)) {
    checker.spend(1);
    if (Object.hasOwn(value, name)) checker.fits(schema, toField(place, name));
    else if (fills) {
      const filled = getDefault(wanted, name);
      if (filled === undefined) continue;
      checker.fill(value, name, filled);
      checker.fits(schema, toField(place, name));
    }
  }
}

function checkAnyOf(checker: SchemaChecker, wanted: unknown, _schema: SchemaObject, place: SchemaLocation): void {
  if (!Array.isArray(wanted)) return;
  const branches: SchemaFindings[] = [];
  for (const schema of wanted) {
    const findings = checker.probe(schema, place);
    if (findings.count === 0) return;
    branches.push(findings);
  }
  for (const findings of branches) checker.adopt(findings);
}

function checkOneOf(checker: SchemaChecker, wanted: unknown, _schema: SchemaObject, place: SchemaLocation): void {
  if (!Array.isArray(wanted)) return;
  const branches = wanted.map((schema) => checker.probe(schema, place));
  const fitting = branches.filter(({ count }) => count === 0).length;
  if (fitting === 1) return;
  if (fitting === 0) for (const findings of branches) checker.adopt(findings);
  checker.report(place, "must match exactly one schema in oneOf");
}

/** The price of remembering one field or item. */
const KEY_WORK = 5;

/** What a part of the schema itself says of the fields or items of a value. */
type KeyCollector<Key> = (checker: SchemaChecker, schema: SchemaObject, value: unknown) => Iterable<Key>;

/** The fields or items that some part of the schema, on this level and in branches that fit, has something to say of. */
function collectEvaluated<Key>(
  checker: SchemaChecker,
  root: SchemaObject,
  place: SchemaLocation,
  own: KeyCollector<Key>,
): ReadonlySet<Key> {
  const seen = new Set<Key>();
  const visit = (schema: unknown, isRoot: boolean): void => {
    if (!isRecord(schema)) return;
    checker.spend(STEP_WORK);
    for (const key of own(checker, schema, place.value)) {
      checker.spend(KEY_WORK);
      seen.add(key);
    }
    const { allOf, anyOf, oneOf, dependentSchemas } = schema;
    if (!isRoot && (schema.unevaluatedItems !== undefined || schema.unevaluatedProperties !== undefined)) {
      for (const key of listKeys(checker, place.value)) seen.add(key as Key);
    }
    for (const reference of [schema.$ref, schema.$dynamicRef]) {
      if (typeof reference === "string") visit(checker.resolve(reference), false);
    }
    const fitsAlready = isRecord(schema.if) && checker.probe(schema.if, place).count === 0;
    const branches = [
      ...(Array.isArray(allOf) ? allOf : []),
      ...[anyOf, oneOf].flatMap((list) => (Array.isArray(list) ? list : [])),
      ...(schema.if === undefined ? [] : fitsAlready ? [schema.if, schema.then] : [schema.else]),
      ...listEntries(dependentSchemas).flatMap(([name, dependent]) =>
        isRecord(place.value) && Object.hasOwn(place.value, name) ? [dependent] : [],
      ),
    ];
    for (const branch of branches) if (checker.probe(branch, place).count === 0) visit(branch, false);
  };
  visit(root, true);
  return seen;
}

function* listEvaluatedProperties(checker: SchemaChecker, schema: SchemaObject, value: unknown): Generator<string> {
  const sources = listEntries(schema.patternProperties).map(([source]) => source);
  for (const name of listFieldNames(checker, value)) {
    const isNamed = isRecord(schema.properties) && Object.hasOwn(schema.properties, name);
    const isKnown = isNamed || schema.additionalProperties !== undefined;
    if (isKnown || sources.some((source) => checker.matches(source, name))) yield name;
  }
}

function* listEvaluatedItems(checker: SchemaChecker, schema: SchemaObject, value: unknown): Generator<number> {
  if (!Array.isArray(value)) return;
  const { prefixItems, items, additionalItems, contains } = schema;
  const tuple = Array.isArray(items) ? items : Array.isArray(prefixItems) ? prefixItems : [];
  checker.spend(2 * value.length);
  const isRest = (items !== undefined && !Array.isArray(items)) || additionalItems !== undefined;
  for (const index of value.keys()) {
    if (isRest || index < tuple.length) yield index;
    else if (contains !== undefined) {
      if (checker.probe(contains, { value: value[index], fills: false }).count === 0) yield index;
    }
  }
}

function listKeys(checker: SchemaChecker, value: unknown): Iterable<string | number> {
  if (!Array.isArray(value)) return listFieldNames(checker, value);
  checker.spend(KEY_WORK * value.length);
  return value.keys();
}

function listFieldNames(checker: SchemaChecker, value: unknown): readonly string[] {
  return isRecord(value) ? checker.listNames(value) : [];
}

const entryLists = new WeakMap<object, readonly [string, unknown][]>();

/** Kept, because the same schema is read for every item of a list. */
function listEntries(value: unknown): readonly [string, unknown][] {
  if (!isRecord(value)) return [];
  let entries = entryLists.get(value);
  if (entries === undefined) {
    entries = Object.entries(value);
    entryLists.set(value, entries);
  }
  return entries;
}

function toField(parent: SchemaLocation, key: string): SchemaLocation {
  return { value: (parent.value as Record<string, unknown>)[key], parent, key, fills: parent.fills };
}

function toItem(parent: SchemaLocation, key: number): SchemaLocation {
  return { value: (parent.value as readonly unknown[])[key], parent, key, fills: parent.fills };
}
