import { isRecord, omitUndefined } from "../../core/json.ts";
import type { ApiBody, ApiParameter, ParameterPlace, ParameterStyle, PartEncoding } from "./compiled-api.ts";
import { listRequired, type SchemaSource } from "./convert-schema.ts";
import { createDocumentError, dereference, type OpenApiObject } from "./read-document.ts";

export interface MergedInput {
  readonly parameters: readonly ApiParameter[];
  readonly body?: ApiBody;
  readonly source: SchemaSource;
}

type Property = SchemaSource["properties"][number];

interface OperationPlace {
  readonly path: string;
  readonly item: OpenApiObject;
  readonly operation: OpenApiObject;
}

/** The parameters and the body as the arguments of one action. */
export function mergeInput(document: OpenApiObject, { path, item, operation }: OperationPlace): MergedInput {
  const taken = new Set<string>();
  const properties: Property[] = [];
  const required: string[] = [];
  const parameters: ApiParameter[] = [];
  for (const raw of listParameters(document, path, item, operation)) {
    const place = raw.in as ParameterPlace;
    const name = raw.name as string;
    const argument = takeArgument(name, place, taken);
    const content = isRecord(raw.content) ? Object.values(raw.content).find(isRecord) : undefined;
    const style = content !== undefined ? "json" : readStyle(raw.style, place);
    const explode = typeof raw.explode === "boolean" ? raw.explode : style === "form" || style === "deepObject";
    const reserved = raw.allowReserved === true && place === "query" ? { allowReserved: true } : {};
    parameters.push({ argument, name, in: place, style, explode, ...reserved });
    const description = typeof raw.description === "string" ? raw.description : undefined;
    properties.push({ argument, schema: content?.schema ?? raw.schema ?? {}, ...omitUndefined({ description }) });
    if (raw.required === true || place === "path") required.push(argument);
  }
  const body = readBody(document, operation.requestBody);
  if (body === undefined) return { parameters, source: { properties, required, takesOthers: false, isForm: false } };
  const { mediaType, media, isRequired, description } = body;
  const isForm = mediaType.startsWith("multipart/");
  const common = { mediaType, required: isRequired, ...omitUndefined({ encoding: readEncoding(media.encoding) }) };
  const parts = isStructured(mediaType) ? flattenObject(document, media.schema, 0) : undefined;
  const names = [...(parts?.properties.keys() ?? [])];
  if (parts === undefined || names.some((name) => taken.has(toArgument(name)))) {
    const argument = taken.has("body") ? "request_body" : "body";
    properties.push({ argument, schema: toBodySchema(mediaType, media.schema), ...omitUndefined({ description }) });
    if (isRequired) required.push(argument);
    return {
      parameters,
      body: { ...common, ...(argument === "body" ? {} : { argument }) },
      source: { properties, required, takesOthers: false, isForm },
    };
  }
  const fields = names.map((name) => [takeArgument(name, "body", taken), name] as const);
  for (const [argument, name] of fields) {
    properties.push({ argument, schema: parts.properties.get(name) ?? {} });
    if (isRequired && parts.required.has(name)) required.push(argument);
  }
  const takesOthers = parts.takesOthers;
  return {
    parameters,
    body: { ...common, fields: Object.fromEntries(fields), ...(takesOthers ? { takesOthers } : {}) },
    source: { properties, required, takesOthers, isForm },
  };
}

/** Headers that the document may not set: they belong to the connection or to the credentials. */
const IGNORED_HEADERS = new Set(
  "accept content-type authorization host connection content-length transfer-encoding cookie upgrade te trailer expect keep-alive proxy-authorization".split(
    " ",
  ),
);

/** Those of the operation override those of the path with the same name and place. */
function listParameters(document: OpenApiObject, path: string, item: OpenApiObject, operation: OpenApiObject) {
  const found = new Map<string, OpenApiObject>();
  for (const raw of [item.parameters, operation.parameters].flatMap((each) => (Array.isArray(each) ? each : []))) {
    const parameter = dereference(document, raw);
    const { name, in: place } = parameter ?? {};
    if (parameter === undefined || typeof name !== "string" || name === "") continue;
    if (!["path", "query", "header", "cookie"].includes(String(place))) continue;
    if (place === "header" && (IGNORED_HEADERS.has(name.toLowerCase()) || !/^[\w!#$%&'*+.^`|~-]+$/.test(name)))
      continue;
    if (place === "path" && !path.includes(`{${name}}`)) continue;
    found.set(`${place} ${name}`, parameter);
  }
  const names = [...path.matchAll(/\{([^{}]*)\}/g)].map(([, name = ""]) => name);
  if (names.includes("")) throw createDocumentError("has a path with {} without a name");
  for (const name of names)
    if (!found.has(`path ${name}`)) found.set(`path ${name}`, { name, in: "path", schema: { type: "string" } });
  return found.values();
}

const STYLES: Readonly<Record<ParameterPlace, readonly ParameterStyle[]>> = {
  path: ["simple", "label", "matrix"],
  query: ["form", "spaceDelimited", "pipeDelimited", "deepObject"],
  header: ["simple"],
  cookie: ["form"],
};

function readStyle(style: unknown, place: ParameterPlace): ParameterStyle {
  return STYLES[place].find((each) => each === style) ?? STYLES[place][0] ?? "simple";
}

/** A name that every model library takes for a field. */
function toArgument(name: string): string {
  const spelled = name
    .replaceAll("<", "_lt")
    .replaceAll(">", "_gt")
    .replace(/[^A-Za-z0-9_.-]+/g, "_");
  const plain = spelled.slice(0, 60).replace(/^_+(?=.)|(?<=.)_+$/g, "") || "value";
  const isKept = /^[A-Za-z0-9_.-]{1,64}$/.test(name) && !["__proto__", "constructor", "prototype"].includes(name);
  return isKept ? name : plain === name ? `${plain}_` : plain === "constructor" ? "constructor_" : plain;
}

function takeArgument(name: string, place: string, taken: Set<string>): string {
  const plain = toArgument(name);
  let argument = taken.has(plain) ? `${plain}_${place}` : plain;
  for (let count = 2; taken.has(argument); count++) argument = `${plain}_${count}`;
  taken.add(argument);
  return argument;
}

const isStructured = (mediaType: string) => /json|x-www-form-urlencoded|multipart\//.test(mediaType);

/** In the order in which a type is chosen when an operation takes several. */
const PREFERRED = [/^application\/json/, /json/, /^multipart\/form-data/, /x-www-form-urlencoded/, /^text\/plain/, /./];

function readBody(document: OpenApiObject, raw: unknown) {
  const body = dereference(document, raw);
  const content = isRecord(body?.content) ? body.content : {};
  const types = Object.keys(content).filter((type) => isRecord(content[type]));
  const mediaType = PREFERRED.map((form) => types.find((type) => form.test(type.toLowerCase()))).find(Boolean);
  if (body === undefined || mediaType === undefined || /[\r\n]/.test(mediaType)) return undefined;
  const description = typeof body.description === "string" ? body.description : undefined;
  const media = content[mediaType] as OpenApiObject;
  return { mediaType: mediaType.toLowerCase(), media, isRequired: body.required === true, description };
}

const toBodySchema = (mediaType: string, schema: unknown): unknown => {
  if (isStructured(mediaType)) return schema ?? {};
  const isText = /^text\/|xml|yaml|sdp/.test(mediaType);
  return { type: "string", description: isText ? "The body as text." : "The body as base64." };
};

function readEncoding(raw: unknown): Readonly<Record<string, PartEncoding>> | undefined {
  if (!isRecord(raw)) return undefined;
  const parts = Object.entries(raw).flatMap(([name, part]) => {
    if (!isRecord(part) || name === "__proto__") return [];
    const contentType = typeof part.contentType === "string" ? part.contentType : undefined;
    const style = STYLES.query.find((each) => each === part.style);
    const explode = typeof part.explode === "boolean" ? part.explode : undefined;
    return [[name, omitUndefined({ contentType, style, explode })] as const];
  });
  return parts.length === 0 ? undefined : Object.fromEntries(parts);
}

interface FlatObject {
  readonly properties: Map<string, unknown>;
  readonly required: Set<string>;
  readonly takesOthers: boolean;
}

/** The fields of an object, with those of `allOf`. Undefined: it is no object, has variants, or any field. */
function flattenObject(document: OpenApiObject, raw: unknown, depth: number): FlatObject | undefined {
  const schema = dereference(document, raw);
  if (schema === undefined || depth > 8 || schema.nullable === true) return undefined;
  if (Array.isArray(schema.anyOf) || Array.isArray(schema.oneOf) || schema.not !== undefined) return undefined;
  if (schema.type !== undefined && schema.type !== "object") return undefined;
  const own = isRecord(schema.properties) ? Object.entries(schema.properties) : [];
  const kept = own.filter(([name, part]) => name !== "__proto__" && dereference(document, part)?.readOnly !== true);
  const properties = new Map<string, unknown>(kept);
  const required = new Set(listRequired(document, schema).filter((name) => properties.has(name)));
  const others = schema.additionalProperties;
  let takesOthers = others === true || (isRecord(others) && own.length > 0);
  for (const part of Array.isArray(schema.allOf) ? schema.allOf : []) {
    const inner = flattenObject(document, part, depth + 1);
    if (inner === undefined) return undefined;
    for (const [name, value] of inner.properties) properties.set(name, value);
    for (const name of inner.required) required.add(name);
    takesOthers ||= inner.takesOthers;
  }
  if (depth > 0) for (const name of listRequired(document, schema)) required.add(name);
  if (depth === 0 && properties.size === 0) return undefined;
  for (const name of required) if (depth === 0 && !properties.has(name)) required.delete(name);
  return { properties, required, takesOthers };
}
