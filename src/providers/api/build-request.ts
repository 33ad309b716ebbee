import { QmError } from "../../core/errors.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { Credentials } from "./authorize.ts";
import type { ApiOperation } from "./compiled-api.ts";
import {
  formatCookieParameter,
  formatHeaderParameter,
  formatPathParameter,
  formatQueryParameter,
  hasDotSegment,
} from "./parameter-style.ts";
import { encodeBody } from "./request-body.ts";

export interface BuiltRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

/** The request of one call. Throws `invalid_arguments` if it would leave the path of the operation. */
export function buildRequest(
  operation: ApiOperation,
  server: string,
  args: JsonObject,
  credentials: Credentials,
  boundary: string,
): BuiltRequest {
  const given = operation.parameters.flatMap((parameter) => {
    const value: Json | undefined = Object.hasOwn(args, parameter.argument) ? args[parameter.argument] : undefined;
    return value === undefined || (value === null && parameter.in !== "path") ? [] : [{ parameter, value }];
  });
  const at = (place: string) => given.filter(({ parameter }) => parameter.in === place);
  const [template = "", fixedQuery] = operation.path.split("?", 2);
  const values = new Map(
    at("path").map(({ parameter, value }) => [parameter.name, formatPathParameter(parameter, value)]),
  );
  const fill = (text: string) =>
    text.replace(/\{([^{}]*)\}/g, (_all, name: string) => values.get(name) ?? missing(name));
  const path = fill(template);
  // `?q={q}` is left out if q is a parameter of the query.
  const queryNames = new Set(operation.parameters.flatMap(({ name, in: place }) => (place === "query" ? [name] : [])));
  const isFixed = (pair: string) => pair !== "" && !queryNames.has(/\{([^{}]*)\}/.exec(pair)?.[1] ?? "");
  const query = [
    ...(fixedQuery ?? "").split("&").filter(isFixed).map(fill),
    ...at("query").flatMap(({ parameter, value }) => formatQueryParameter(parameter, value)),
    ...credentials.query,
  ];
  const cookies = [
    ...at("cookie").flatMap(({ parameter, value }) => formatCookieParameter(parameter, value)),
    ...credentials.cookies,
  ];
  const names = new Set(operation.parameters.map(({ argument }) => argument));
  const body = operation.body && encodeBody(operation.body, args, names, boundary);
  const headers = {
    "user-agent": "quartermaster",
    ...Object.fromEntries(
      at("header").map(({ parameter, value }) => [
        parameter.name.toLowerCase(),
        formatHeaderParameter(parameter, value),
      ]),
    ),
    accept: operation.accept ?? "application/json, */*;q=0.5",
    ...(cookies.length > 0 ? { cookie: cookies.join("; ") } : {}),
    ...(body === undefined ? {} : { "content-type": body.contentType }),
    ...credentials.headers,
  };
  const url = `${server}${path}${query.length > 0 ? `?${query.join("&")}` : ""}`;
  requireSamePath(url, server, path);
  return { url, method: operation.method, headers, ...(body === undefined ? {} : { body: body.content }) };
}

/** A URL parser resolves dots and the like. What it would change could lead elsewhere. */
function requireSamePath(url: string, server: string, path: string): void {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const base = new URL(server);
  const expected = new URL(`${base.origin}${base.pathname.replace(/\/+$/, "")}${path}`);
  const segments = (text: string) => text.split("/").length;
  const isSame = parsed?.origin === base.origin && parsed.pathname === expected.pathname && !hasDotSegment(path);
  if (isSame && segments(expected.pathname) === segments(base.pathname.replace(/\/+$/, "") + path)) return;
  throw new QmError("invalid_arguments", "the arguments would lead to another path", { hint: "Give other values." });
}

function missing(name: string): never {
  throw new QmError("invalid_arguments", `${name} is missing`, { hint: "Give a value for it." });
}
