import { QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";

const ADDRESS_CHARS = 2_000;

/** The first http address of a list of servers, with its variables filled by their defaults. */
export function resolveServer(servers: unknown, base: string | undefined): string | undefined {
  const listed = Array.isArray(servers) ? servers.filter(isRecord) : [];
  // Without servers, OpenAPI means the host of the document.
  if (listed.length === 0) return base === undefined ? undefined : normalizeServer("/", base);
  for (const { url, variables } of listed) {
    if (typeof url !== "string") continue;
    const known = isRecord(variables) ? variables : {};
    const filled = url.replace(/\{([^{}]{1,100})\}/g, (all, name: string) => {
      const variable = Object.hasOwn(known, name) ? known[name] : undefined;
      return isRecord(variable) && variable.default !== undefined ? String(variable.default) : all;
    });
    const address = normalizeServer(filled, base);
    if (address !== undefined) return address;
  }
  return undefined;
}

/** An http or https address without query, user and a slash at its end. Undefined: it is none. */
export function normalizeServer(text: string, base?: string): string | undefined {
  // A document in a file has no scheme that `//host` could take over.
  const address = base === undefined && text.startsWith("//") ? `https:${text}` : text;
  if (address.length > ADDRESS_CHARS || !URL.canParse(address, base) || /[{}]/.test(address)) return undefined;
  const url = new URL(address, base);
  const isPlain = url.username === "" && url.password === "" && url.search === "" && url.hash === "";
  if (!["http:", "https:"].includes(url.protocol) || !isPlain) return undefined;
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

/** Throws `invalid_arguments` for an address that is not http. */
export function requireApiServer(text: string): string {
  const address = normalizeServer(text);
  if (address !== undefined) return address;
  throw new QmError("invalid_arguments", "the server is not an http or https address without user and query", {
    hint: "Give an address such as https://api.example.com/v1.",
  });
}
