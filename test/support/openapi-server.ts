import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

type Part = Record<string, unknown>;

/** What the server understood, by the document alone. Values are texts where the wire has only texts. */
export interface PlayedRequest {
  readonly operation: string;
  /** By place and name, as in `query limit`. */
  readonly parameters: Readonly<Record<string, unknown>>;
  readonly body: unknown;
  readonly mediaType: string | undefined;
  /** The places that hold a credential of a complete set, as in `header authorization`. */
  readonly credentials: readonly string[];
  readonly problems: readonly string[];
}

export interface PlayedApi {
  readonly url: string;
  /** By the value of the header `x-qm-test` if there is one, else in the order of arrival. */
  readonly requests: PlayedRequest[];
  readonly close: () => void;
}

const METHODS = new Set(["get", "put", "post", "delete", "options", "head", "patch"]);

/** A server that plays an OpenAPI document. It decodes requests as the document says, with none of our code. */
export async function playDocument(document: Part): Promise<PlayedApi> {
  const routes = listRoutes(document);
  const requests: PlayedRequest[] = [];
  const server: Server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const played = await play(document, routes, request, Buffer.concat(chunks));
    requests.push(played.request);
    response.writeHead(played.status, { "content-type": "application/json" });
    response.end(request.method === "HEAD" ? undefined : JSON.stringify(played.answer));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    close: () => server.close(),
  };
}

interface Route {
  readonly path: string;
  readonly method: string;
  readonly item: Part;
  readonly operation: Part;
  readonly pattern: RegExp;
  readonly names: readonly string[];
  /** Pairs of the query that are part of the path. */
  readonly fixed: readonly string[];
}

function listRoutes(document: Part): readonly Route[] {
  return Object.entries(document.paths as Record<string, Part>).flatMap(([path, raw]) => {
    const item = resolve(document, raw);
    return Object.keys(item)
      .filter((method) => METHODS.has(method))
      .map((method) => {
        const names: string[] = [];
        const [plain = "", query = ""] = (path.split("#", 1)[0] ?? "").split("?", 2);
        const fixed = query.split("&").filter((each) => each !== "" && !each.includes("{"));
        const source = plain.replace(/\{([^{}]+)\}|[.*+?^$()|[\]\\]/g, (sign, name?: string) => {
          if (name === undefined) return `\\${sign}`;
          names.push(name);
          return "([^/]+?)";
        });
        const operation = resolve(document, item[method]);
        return { path, method, item, operation, pattern: new RegExp(`^${source}$`), names, fixed };
      });
  });
}

async function play(document: Part, routes: readonly Route[], request: IncomingMessage, bytes: Buffer) {
  const [rawPath = "", rawQuery = ""] = (request.url ?? "").split("?", 2);
  const pairs = rawQuery.split("&").filter((each) => each !== "");
  const found = routes
    .filter(({ method, pattern }) => method === request.method?.toLowerCase() && pattern.test(rawPath))
    .filter(({ fixed }) => fixed.every((pair) => pairs.includes(pair)))
    // The path with the longest fixed part wins.
    .sort((a, b) => countFixed(b) - countFixed(a))[0];
  if (found === undefined) {
    const problems = [`no operation for ${request.method} ${rawPath}`];
    const empty = { operation: "", parameters: {}, body: undefined, mediaType: undefined, credentials: [], problems };
    return { status: 404, answer: { error: problems[0] }, request: empty };
  }
  const problems: string[] = [];
  const { operation, item, names, pattern } = found;
  const segments = pattern.exec(rawPath)?.slice(1) ?? [];
  const cookies = (request.headers.cookie ?? "").split("; ").filter((each) => each !== "");
  const parameters: Record<string, unknown> = {};
  const declared = [item.parameters, operation.parameters]
    .flatMap((each) => (Array.isArray(each) ? each : []))
    .map((raw) => resolve(document, raw));
  const queryNames = new Set(declared.filter((each) => each.in === "query").map(({ name }) => String(name)));
  for (const parameter of declared) {
    const { name, in: place } = parameter as { name: string; in: string };
    const value = decodeParameter(document, parameter, {
      path: segments[names.indexOf(name)],
      query: pairs,
      header: request.headers[name.toLowerCase()],
      cookie: cookies,
      queryNames,
    });
    if (place === "header" && isReserved(name)) continue;
    if (value !== undefined) parameters[`${place} ${name}`] = value;
    else if (parameter.required === true) problems.push(`${place} ${name} is missing`);
  }
  const mediaType = request.headers["content-type"];
  const body = await decodeBody(document, operation, mediaType, bytes, problems);
  const credentials = findCredentials(document, operation, request, pairs, cookies, problems);
  for (const place of credentials) delete parameters[place];
  return {
    status: problems.length > 0 ? 400 : 200,
    answer: problems.length > 0 ? { error: problems.join("; ") } : createAnswer(document, operation),
    request: { operation: `${found.method} ${found.path}`, parameters, body, mediaType, credentials, problems },
  };
}

const countFixed = ({ path }: Route) => path.replace(/#.*|\{[^{}]*\}/g, "").length;

const isReserved = (name: string) => /^(?:accept|content-type|content-length|authorization)$/i.test(name);

interface Arrived {
  readonly path: string | undefined;
  readonly query: readonly string[];
  readonly header: string | string[] | undefined;
  readonly cookie: readonly string[];
  /** The other parameters of the query, which a free object does not take. */
  readonly queryNames: ReadonlySet<string>;
}

/** The styles of OpenAPI 3.1, section 4.8.12.4. */
function decodeParameter(document: Part, parameter: Part, arrived: Arrived): unknown {
  const {
    name,
    in: place,
    style,
    explode,
  } = parameter as { name: string; in: string; style?: string; explode?: boolean };
  if (parameter.content !== undefined) {
    const text = place === "query" ? findPairs(arrived.query, name)[0] : (arrived as unknown as Part)[place];
    return typeof text === "string" ? JSON.parse(place === "header" ? text : decode(text)) : undefined;
  }
  const schema = resolve(document, parameter.schema);
  const kind = findKind(document, schema);
  if (place === "query" || place === "cookie")
    return decodeQuery(
      document,
      name,
      place === "query" ? arrived.query : arrived.cookie,
      style ?? "form",
      explode,
      schema,
      arrived.queryNames,
    );
  const text = place === "path" ? arrived.path : arrived.header;
  if (typeof text !== "string") return undefined;
  const read = place === "path" ? decode : (each: string) => each;
  if (style === "matrix") {
    const parts = text.slice(1).split(";");
    if (explode && kind === "array") return parts.map((part) => read(part.split("=")[1] ?? ""));
    if (explode && kind === "object")
      return toObject(
        parts.map((part) => part.split("=")),
        read,
      );
    return decodeList(text.slice(text.indexOf("=") + 1).split(","), kind, read);
  }
  if (style === "label") {
    const parts = text.slice(1).split(explode ? "." : ",");
    if (explode && kind === "object")
      return toObject(
        parts.map((part) => part.split("=")),
        read,
      );
    return kind === "array" ? parts.map(read) : decodeList(explode ? [text.slice(1)] : parts, kind, read);
  }
  if (kind === "object" && explode)
    return toObject(
      text.split(",").map((part) => part.split("=")),
      read,
    );
  return kind === undefined ? read(text) : decodeList(text.split(","), kind, read);
}

function decodeQuery(
  document: Part,
  name: string,
  pairs: readonly string[],
  style: string,
  explode: boolean | undefined,
  schema: Part,
  taken: ReadonlySet<string> = new Set(),
): unknown {
  const kind = findKind(document, schema);
  if (style === "deepObject") return decodeBrackets(name, pairs) ?? findPairs(pairs, name).map(decode)[0];
  const isExploded = explode ?? style === "form";
  if (kind === "object" && isExploded) {
    const free = pairs.map((pair) => decode(pair.split("=", 1)[0] ?? "")).filter((key) => !taken.has(key));
    const known = schema.properties === undefined ? free : Object.keys(schema.properties as Part);
    const found = known.flatMap((key) => findPairs(pairs, key).map((value) => [key, value]));
    return found.length === 0 ? undefined : toObject(found, decode);
  }
  const values = findPairs(pairs, name);
  if (values.length === 0) return undefined;
  if (isExploded) return kind === "array" || values.length > 1 ? values.map(decode) : decode(values[0] ?? "");
  const separator = style === "spaceDelimited" ? /%20|\+/ : style === "pipeDelimited" ? /%7C|\|/ : /,/;
  return kind === undefined ? decode(values[0] ?? "") : decodeList((values[0] ?? "").split(separator), kind, decode);
}

/** `a[b][]=1` and `a[0][b]=1`. */
function decodeBrackets(name: string, pairs: readonly string[]): unknown {
  const root: { value?: unknown } = {};
  for (const pair of pairs) {
    const [key = "", value = ""] = pair.split("=", 2).map(decode);
    if (!key.startsWith(`${name}[`)) continue;
    const steps = [...key.slice(name.length).matchAll(/\[([^\]]*)\]/g)].map(([, step = ""]) => step);
    let holder: Part = root;
    let last = "value";
    for (const step of steps) {
      holder[last] ??= step === "" || /^\d+$/.test(step) ? [] : {};
      holder = holder[last] as Part;
      last = step === "" ? String((holder as unknown as unknown[]).length) : step;
    }
    holder[last] = value;
  }
  return root.value;
}

function findPairs(pairs: readonly string[], name: string): readonly string[] {
  return pairs
    .map((pair) => [decode(pair.split("=", 1)[0] ?? ""), pair.slice(pair.indexOf("=") + 1)] as const)
    .filter(([key]) => key === name)
    .map(([, value]) => value);
}

function decodeList(parts: readonly string[], kind: string | undefined, read: (text: string) => string): unknown {
  if (kind === "array") return parts.map(read);
  if (kind !== "object") return read(parts.join(","));
  return toObject(
    parts.flatMap((part, index) => (index % 2 === 0 ? [[part, parts[index + 1] ?? ""]] : [])),
    read,
  );
}

const toObject = (entries: readonly (readonly string[])[], read: (text: string) => string) =>
  Object.fromEntries(entries.map(([key = "", value = ""]) => [read(key), read(value)]));

const decode = (text: string) => decodeURIComponent(text.replaceAll("+", "%20"));

/** `array` or `object` if the schema is one, with its variants. */
function findKind(document: Part, raw: unknown, depth = 0): string | undefined {
  const schema = resolve(document, raw);
  const types = [schema.type].flat();
  const kind = types.find((type) => type === "array" || type === "object");
  if (kind !== undefined) return kind as string;
  if (schema.properties !== undefined) return "object";
  if (depth > 5) return undefined;
  const parts = [schema.allOf, schema.anyOf, schema.oneOf].flatMap((each) => (Array.isArray(each) ? each : []));
  const kinds = parts.map((part) => findKind(document, part, depth + 1));
  // A sample takes the first variant.
  return kinds[0];
}

async function decodeBody(
  document: Part,
  operation: Part,
  type: string | undefined,
  bytes: Buffer,
  problems: string[],
): Promise<unknown> {
  if (operation.requestBody === undefined) {
    if (bytes.length > 0) problems.push("a body for an operation without one");
    return undefined;
  }
  const { content = {}, required } = resolve(document, operation.requestBody) as { content?: Part; required?: boolean };
  if (type === undefined) {
    if (required === true) problems.push("the body is missing");
    return undefined;
  }
  const plain = type.split(";", 1)[0]?.trim() ?? "";
  const range = Object.keys(content).find((each) => each === "*/*" || each === plain.replace(/\/.*/, "/*"));
  const media = content[plain] ?? content[type] ?? content[range ?? ""];
  if (media === undefined) {
    problems.push(`the type ${type} is not declared`);
    return undefined;
  }
  if (plain.includes("json")) return JSON.parse(bytes.toString("utf8"));
  const { schema: rawSchema, encoding = {} } = media as { schema?: unknown; encoding?: Record<string, Part> };
  const properties = listProperties(document, rawSchema);
  if (plain === "application/x-www-form-urlencoded") {
    const pairs = bytes
      .toString("utf8")
      .split("&")
      .filter((each) => each !== "");
    return Object.fromEntries(
      Object.keys(properties).flatMap((name) => {
        const { style, explode } = encoding[name] ?? {};
        const schema = resolve(document, properties[name]);
        const isJson = style === undefined && findKind(document, schema) === "object";
        const value = isJson
          ? findPairs(pairs, name).map((each) => JSON.parse(decode(each)))[0]
          : decodeQuery(document, name, pairs, (style as string) ?? "form", explode as boolean | undefined, schema);
        return value === undefined ? [] : [[name, value]];
      }),
    );
  }
  if (plain.startsWith("multipart/")) return readMultipart(document, properties, type, bytes, problems);
  return plain.startsWith("text/") ? bytes.toString("utf8") : bytes.toString("base64");
}

async function readMultipart(
  document: Part,
  properties: Readonly<Part>,
  type: string,
  bytes: Buffer,
  problems: string[],
): Promise<Part> {
  const form = await new Response(new Uint8Array(bytes), { headers: { "content-type": type } }).formData();
  const read: Part = {};
  for (const name of new Set(form.keys())) {
    const schema = resolve(document, properties[name]);
    const items = resolve(document, schema.items);
    const isFile = [schema, items].some((each) => each.format === "binary" || each.contentMediaType !== undefined);
    const values = await Promise.all(
      form.getAll(name).map(async (value) => {
        if (isFile === (typeof value === "string")) problems.push(`${name} is ${isFile ? "no" : "a"} file`);
        if (typeof value !== "string") return { filename: value.name, content: await value.text() };
        return /^[[{]/.test(value) ? JSON.parse(value) : value;
      }),
    );
    read[name] = findKind(document, schema) === "array" ? values : values[0];
  }
  return read;
}

function listProperties(document: Part, raw: unknown, depth = 0): Part {
  const schema = resolve(document, raw);
  const parts = [schema.allOf, schema.anyOf, schema.oneOf].flatMap((each) => (Array.isArray(each) ? each : []));
  const inherited = depth > 5 ? [] : parts.map((part) => listProperties(document, part, depth + 1));
  return Object.assign({}, ...inherited, schema.properties);
}

function findCredentials(
  document: Part,
  operation: Part,
  request: IncomingMessage,
  pairs: readonly string[],
  cookies: readonly string[],
  problems: string[],
): readonly string[] {
  const sets = ((operation.security ?? document.security ?? []) as Record<string, unknown>[]).map(Object.keys);
  const schemes = ((document.components as Part | undefined)?.securitySchemes ?? {}) as Record<string, Part>;
  const locate = (name: string): string | undefined => {
    const scheme = resolve(document, schemes[name]);
    const key = String(scheme.name);
    if (scheme.type === "apiKey") {
      const isThere =
        scheme.in === "header"
          ? request.headers[key.toLowerCase()] !== undefined
          : findPairs(scheme.in === "query" ? pairs : cookies, key).length > 0;
      return isThere ? `${scheme.in} ${key}` : undefined;
    }
    const word = scheme.type === "http" ? String(scheme.scheme) : "bearer";
    const sent = request.headers.authorization ?? "";
    return sent.toLowerCase().startsWith(`${word.toLowerCase()} `) ? "header authorization" : undefined;
  };
  if (sets.length === 0) return [];
  const complete = sets.map((set) => set.map(locate)).find((places) => places.every((place) => place !== undefined));
  if (complete === undefined) problems.push("no complete set of credentials");
  return (complete ?? []) as readonly string[];
}

/** A value for the first successful response, from its schema. */
function createAnswer(document: Part, { responses }: Part): unknown {
  const success = Object.entries((responses ?? {}) as Part).find(([status]) => /^2/.test(status))?.[1];
  const content = (resolve(document, success).content ?? {}) as Record<string, Part>;
  const media = Object.entries(content).find(([type]) => type.includes("json"))?.[1];
  return media === undefined ? {} : createValue(document, media.schema, 0);
}

function createValue(document: Part, raw: unknown, depth: number): unknown {
  const schema = resolve(document, raw);
  if (depth > 3) return null;
  if (schema.example !== undefined) return schema.example;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  const [variant] = [schema.allOf, schema.anyOf, schema.oneOf].flatMap((each) => (Array.isArray(each) ? each : []));
  if (schema.properties !== undefined)
    return Object.fromEntries(
      Object.entries(schema.properties as Part).map(([name, part]) => [name, createValue(document, part, depth + 1)]),
    );
  if (schema.type === "array") return [createValue(document, schema.items, depth + 1)];
  if (variant !== undefined) return createValue(document, variant, depth + 1);
  return schema.type === "integer" || schema.type === "number" ? 1 : schema.type === "boolean" ? true : "text";
}

function resolve(document: Part, raw: unknown): Part {
  let found = raw;
  for (let hops = 0; hops < 20; hops++) {
    if (typeof found !== "object" || found === null) return {};
    const { $ref } = found as { $ref?: string };
    if (typeof $ref !== "string") return found as Part;
    found = $ref
      .slice(2)
      .split("/")
      .reduce<unknown>((part, key) => (part as Part)?.[decodeURIComponent(key).replace(/~1/g, "/")], document);
  }
  return {};
}
