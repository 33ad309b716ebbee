import { isRecord, type Json, type JsonObject } from "../../core/json.ts";
import type { ApiOperation } from "./compiled-api.ts";

/** The arguments for the next page, if the answer tells where it is and the operation has the parameters for it. */
export function findNextPage(
  operation: ApiOperation,
  args: JsonObject,
  link: string | undefined,
  body: unknown,
  server: string,
): JsonObject | undefined {
  const address = readNextLink(link) ?? (isRecord(body) ? readNextAddress(body) : undefined);
  if (address !== undefined) return readQuery(operation, args, address, server);
  if (!isRecord(body)) return undefined;
  for (const [names, value] of listCursors(body)) {
    if (value === undefined || value === null || value === "") continue;
    const parameter = operation.parameters.find(({ name, in: place }) => place === "query" && names.includes(name));
    const field = Object.entries(operation.body?.fields ?? {}).find(([, name]) => names.includes(name))?.[0];
    const argument = parameter?.argument ?? field;
    if (argument !== undefined) return { ...args, [argument]: value as Json };
  }
  return undefined;
}

const readNextLink = (link: string | undefined): string | undefined =>
  link
    ?.slice(0, 8_192)
    .split(",")
    .map((each) => /^\s*<([^<>]*)>(.*)$/.exec(each))
    .find((found) => /;\s*rel="?next"?/i.test(found?.[2] ?? ""))?.[1];

function readNextAddress(body: Record<string, unknown>): string | undefined {
  const links = isRecord(body.links) ? body.links : isRecord(body._links) ? body._links : {};
  const linked = isRecord(links.next) ? links.next.href : links.next;
  const candidates = [body.next_page_uri, body.next_page_url, body["@odata.nextLink"], linked, body.next];
  return candidates.find((each): each is string => typeof each === "string" && /^(?:https?:\/)?\//.test(each));
}

function readQuery(operation: ApiOperation, args: JsonObject, address: string, server: string): JsonObject | undefined {
  if (!URL.canParse(address, server)) return undefined;
  const url = new URL(address, server);
  if (url.origin !== new URL(server).origin) return undefined;
  const found = operation.parameters.flatMap(({ argument, name, in: place }): [string, Json][] => {
    const text = place === "query" ? url.searchParams.get(name) : null;
    if (text === null) return [];
    const { properties } = operation.schema;
    const schema = isRecord(properties) && Object.hasOwn(properties, argument) ? properties[argument] : undefined;
    const isNumber = isRecord(schema) && JSON.stringify(schema).match(/"(?:integer|number)"/) !== null;
    return [[argument, isNumber && /^-?\d{1,15}$/.test(text) ? Number(text) : text]];
  });
  return found.length === 0 ? undefined : { ...args, ...Object.fromEntries(found) };
}

function listCursors(body: Record<string, unknown>): readonly (readonly [readonly string[], unknown])[] {
  const inner = isRecord(body.response_metadata) ? body.response_metadata : {};
  const data = Array.isArray(body.data) ? body.data.at(-1) : undefined;
  const last = body.last_id ?? (isRecord(data) ? data.id : undefined);
  return [
    [["cursor", "next_cursor", "page_cursor", "starting_after"], body.next_cursor ?? inner.next_cursor],
    [["pageToken", "page_token"], body.nextPageToken ?? body.next_page_token],
    [["after", "after_id", "starting_after"], body.has_more === true ? last : undefined],
  ];
}
