import { QmError } from "../../core/errors.ts";
import type { ApiOperation, CompiledApi } from "./compiled-api.ts";
import { encodeStrictly, isHeaderValue } from "./parameter-style.ts";

/** The credential of a scheme, read for each call. Undefined: none is configured. Throws if its secret is missing. */
export type ReadCredential = (scheme: string) => string | undefined;

export interface Credentials {
  readonly headers: Readonly<Record<string, string>>;
  readonly query: readonly string[];
  readonly cookies: readonly string[];
  /** The values as they are sent. Answers may repeat them. */
  readonly secrets: readonly string[];
}

const NONE: Credentials = { headers: {}, query: [], cookies: [], secrets: [] };

/**
 * The credentials of the first set of schemes that is complete. Throws `needs_login` if none is. Where credentials are
 * optional, they are sent if there are any.
 */
export function authorize(
  name: string,
  { schemes }: CompiledApi,
  { security }: ApiOperation,
  read: ReadCredential,
): Credentials {
  let missing: string | undefined;
  for (const set of security.filter(({ length }) => length > 0)) {
    const values = set.map((scheme) => [scheme, readQuietly(read, scheme)] as const);
    const lacking = values.find(([scheme, value]) => value === undefined || !Object.hasOwn(schemes, scheme));
    if (lacking === undefined) return combine(name, schemes, values as readonly (readonly [string, string])[]);
    // A scheme that an operator can configure is the better advice.
    if (missing === undefined || !Object.hasOwn(schemes, missing)) missing = lacking[0];
  }
  if (missing === undefined || security.some(({ length }) => length === 0)) return NONE;
  const isKnown = Object.hasOwn(schemes, missing);
  throw new QmError(
    "needs_login",
    isKnown
      ? `${name} needs a credential for ${missing}, and none is stored`
      : `${name} needs the security scheme ${missing}, which is not supported`,
    {
      hint: isKnown
        ? `An operator must set apis.${name}.auth.${missing} or store its secret. {qm apis show ${name}} shows which is missing.`
        : "Use another operation.",
      details: { api: name, scheme: missing },
    },
  );
}

function readQuietly(read: ReadCredential, scheme: string): string | undefined {
  try {
    return read(scheme) || undefined;
  } catch {
    return undefined;
  }
}

function combine(
  api: string,
  schemes: CompiledApi["schemes"],
  values: readonly (readonly [string, string])[],
): Credentials {
  const headers: Record<string, string> = {};
  const query: string[] = [];
  const cookies: string[] = [];
  const secrets: string[] = [];
  for (const [name, value] of values) {
    const scheme = schemes[name];
    const isHeader = scheme?.kind === "bearer" || (scheme?.kind === "key" && scheme.in === "header");
    if (isHeader && !isHeaderValue(value))
      throw new QmError("needs_login", `the credential of ${api} for ${name} cannot be sent: it has a line break`, {
        hint: `An operator must store the secret of apis.${api}.auth.${name} again.`,
      });
    secrets.push(value);
    if (scheme?.kind === "bearer") headers.authorization = `${scheme.prefix ?? "Bearer"} ${value}`;
    else if (scheme?.kind === "basic") {
      const encoded = Buffer.from(value).toString("base64");
      secrets.push(encoded, ...(value.includes(":") ? [value.slice(value.indexOf(":") + 1)] : []));
      headers.authorization = `Basic ${encoded}`;
    } else if (scheme?.in === "header") headers[scheme.name.toLowerCase()] = value;
    else if (scheme?.in === "query") query.push(`${encodeStrictly(scheme.name)}=${encodeStrictly(value)}`);
    else if (scheme?.in === "cookie")
      cookies.push(`${scheme.name}=${isCookieValue(value) ? value : encodeStrictly(value)}`);
  }
  return { headers, query, cookies, secrets };
}

/** Not every server decodes cookies, so only what a cookie cannot hold is encoded. */
const isCookieValue = (text: string) => /^[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/.test(text);

/** A text in which sent credentials are replaced. Short ones would destroy ordinary words. */
export function maskCredentials(text: string, { secrets }: Pick<Credentials, "secrets">): string {
  const forms = secrets
    .filter(({ length }) => length >= 6)
    .flatMap((secret) => [secret, encodeStrictly(secret), JSON.stringify(secret).slice(1, -1)])
    .sort((a, b) => b.length - a.length);
  return forms.reduce((masked, form) => masked.replaceAll(form, "[secret]"), text);
}
