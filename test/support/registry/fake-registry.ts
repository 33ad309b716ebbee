import { hash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { zipSync } from "fflate";
import type { JsonObject } from "../../../src/core/json.ts";
import { getPackageMetadata } from "./package-metadata.ts";

/** One version of a server in the fake registry. */
export interface FakeRegistryVersion {
  readonly server: JsonObject;
  readonly status: string;
  readonly updatedAt: string;
}

/** How it answers: like a working registry, or like a failing one. */
export type FakeRegistryBehaviour =
  | "well"
  | "failing"
  | "hanging"
  | "oversized"
  | "talking_rubbish"
  | "redirecting_away";

/** A local registry of MCP servers for tests: the three endpoints, a bundle, and some package metadata. */
export interface FakeRegistry {
  readonly url: string;
  /** The requests, as path and query, in order. */
  readonly requests: readonly string[];
  behave(behaviour: FakeRegistryBehaviour): void;
  /** Which of two shapes a 404 response has. */
  denyAs(shape: "error" | "problem"): void;
  /** Adds or replaces a version. */
  put(server: JsonObject, facts?: { readonly status?: string; readonly updatedAt?: string }): void;
  /** Adds an invalid entry to the list. */
  putBroken(raw: JsonObject): void;
  close(): Promise<void>;
}

export interface FakeRegistryOptions {
  /** The maximum page size, even if more is requested. */
  readonly pageSize?: number;
  /** Starts without the fixture servers. */
  readonly isEmpty?: boolean;
}

const folder = fileURLToPath(new URL(".", import.meta.url));
const META = "io.modelcontextprotocol.registry/official";
const STATUSES = new Map([
  ["deprecated", "deprecated"],
  ["deleted", "deleted"],
]);

export async function startFakeRegistry({
  pageSize = 100,
  isEmpty = false,
}: FakeRegistryOptions = {}): Promise<FakeRegistry> {
  const requests: string[] = [];
  const bundle = createNotesBundle();
  const broken: JsonObject[] = [];
  let versions: readonly FakeRegistryVersion[] = [];
  let behaviour: FakeRegistryBehaviour = "well";
  let denial: "error" | "problem" = "problem";

  const http = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://stand-in");
    requests.push(`${url.pathname}${url.search}`);
    if (behaviour !== "well") return misbehave(behaviour, response);
    const [, first, ...rest] = url.pathname.split("/");
    if (url.pathname === "/bundles/notes.mcpb") return void response.end(bundle);
    if (first === "npm" || first === "pypi" || first === "raw") {
      const facts = getPackageMetadata(first, rest.map(decodeURIComponent).join("/"));
      return facts === undefined ? send(response, 404, { error: "not found" }) : send(response, 200, facts);
    }
    if (url.pathname === "/v0.1/servers") return send(response, 200, list(url.searchParams));
    const asked = /^\/v0\.1\/servers\/([^/]+)\/versions(?:\/([^/]+))?$/.exec(url.pathname);
    const name = decodeURIComponent(asked?.[1] ?? "");
    const own = versions.filter((one) => one.server.name === name);
    if (asked === null || own.length === 0) return deny(response);
    if (asked[2] === undefined) return send(response, 200, { servers: own.map(entryOf).reverse() });
    const wanted = decodeURIComponent(asked[2]);
    const found = wanted === "latest" ? own.at(-1) : own.find((one) => readVersion(one.server) === wanted);
    return found === undefined ? deny(response) : send(response, 200, entryOf(found));
  });
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  if (!isEmpty) versions = fixtures(url, hash("sha256", bundle, "hex"));

  function list(query: URLSearchParams): JsonObject {
    const since = query.get("updated_since");
    const cursor = query.get("cursor");
    const limit = Math.min(Number(query.get("limit") ?? 30), pageSize);
    const asked = versions
      .filter((one) => query.get("version") !== "latest" || isLatest(one))
      .filter((one) => since !== null || query.get("include_deleted") === "true" || one.status !== "deleted")
      .filter((one) => since === null || Date.parse(one.updatedAt) > Date.parse(since))
      .filter((one) => String(one.server.name).includes(query.get("search")?.toLowerCase() ?? ""))
      .sort((a, b) => (toCursor(a) < toCursor(b) ? -1 : 1));
    const from = cursor === null ? 0 : asked.findIndex((one) => toCursor(one) > cursor);
    const page = from === -1 ? [] : asked.slice(from, from + limit);
    const last = page.at(-1);
    const goesOn = last !== undefined && asked.at(-1) !== last;
    return {
      servers: [...(cursor === null ? broken : []), ...page.map(entryOf)],
      metadata: { count: page.length, ...(goesOn ? { nextCursor: toCursor(last) } : {}) },
    };
  }

  function isLatest(one: FakeRegistryVersion): boolean {
    return versions.findLast(({ server }) => server.name === one.server.name) === one;
  }

  function entryOf(one: FakeRegistryVersion): JsonObject {
    const { server, status, updatedAt } = one;
    const about = { status, publishedAt: updatedAt, updatedAt, isLatest: isLatest(one) };
    const message = status === "deprecated" ? { statusMessage: "Use new-weather instead." } : {};
    return { server, _meta: { [META]: { ...about, ...message } } };
  }

  function deny(response: ServerResponse): void {
    if (denial === "error") send(response, 404, { error: "Server not found" });
    else
      send(response, 404, { title: "Not Found", status: 404, detail: "Server not found" }, "application/problem+json");
  }

  return {
    url,
    requests,
    behave: (next) => {
      behaviour = next;
    },
    denyAs: (shape) => {
      denial = shape;
    },
    put(server, { status = "active", updatedAt = "2026-02-01T00:00:00Z" } = {}) {
      const others = versions.filter(
        (one) => one.server.name !== server.name || readVersion(one.server) !== readVersion(server),
      );
      versions = [...others, { server, status, updatedAt }];
    },
    putBroken: (raw) => void broken.push(raw),
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
}

/** The fixture servers, each with its own timestamp. */
function fixtures(url: string, sha256: string): readonly FakeRegistryVersion[] {
  const files = readdirSync(`${folder}fixtures`)
    .filter((file) => file.endsWith(".json"))
    .sort();
  return files.flatMap((file, day) => {
    const text = readFileSync(`${folder}fixtures/${file}`, "utf8").replaceAll("{{url}}", url);
    const servers = JSON.parse(text.replaceAll("{{sha256}}", sha256)) as readonly JsonObject[];
    const status = STATUSES.get(file.replace(".json", "")) ?? "active";
    const updatedAt = new Date(Date.UTC(2026, 0, 1 + day)).toISOString();
    return servers.map((server) => ({ server, status, updatedAt }));
  });
}

/** A bundle with a complete server, the same bytes every time. */
export function createNotesBundle(): Buffer {
  const read = (path: string): Uint8Array => readFileSync(`${folder}bundle/${path}`);
  const files = { "manifest.json": read("manifest.json"), server: { "index.mjs": read("server/index.mjs") } };
  return Buffer.from(zipSync(files, { mtime: "2026-01-01T00:00:00" }));
}

function toCursor({ server }: FakeRegistryVersion): string {
  return `${String(server.name)}:${readVersion(server)}`;
}

function readVersion(server: JsonObject): string {
  const { version, version_detail: detail } = server as { version?: string; version_detail?: { version?: string } };
  return version ?? detail?.version ?? "";
}

function misbehave(behaviour: Exclude<FakeRegistryBehaviour, "well">, response: ServerResponse): void {
  if (behaviour === "failing") send(response, 500, { title: "Internal Server Error", detail: "the database is down" });
  else if (behaviour === "talking_rubbish") response.end("<html>Welcome to the hotel's network</html>");
  else if (behaviour === "redirecting_away") response.writeHead(302, { location: "https://elsewhere.example/" }).end();
  else if (behaviour === "oversized") sendEndless(response);
}

/** Writes until the client disconnects. */
function sendEndless(response: ServerResponse): void {
  const piece = Buffer.alloc(2 ** 20, "[");
  const more = (): void => {
    while (!response.destroyed && response.write(piece));
    if (!response.destroyed) response.once("drain", more);
  };
  more();
}

function send(response: ServerResponse, status: number, body: unknown, type = "application/json"): void {
  response.writeHead(status, { "content-type": type });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}
