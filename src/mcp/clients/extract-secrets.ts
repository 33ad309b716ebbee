import type { ServerEntry } from "./server-entry.ts";

const NAME_LIMIT = 40;

/** A valid server name: lower case, digits, single `-` and `_`. */
export function normalizeServerName(name: string): string {
  const fitted = name
    .slice(0, NAME_LIMIT * 4)
    .normalize("NFKD")
    .toLowerCase()
    .replace(/\p{M}/gu, "")
    .replace(/[^a-z0-9_-]+/g, "-")
    .replace(/[-_]*_[-_]*/g, "_")
    .replace(/-+/g, "-")
    .slice(0, NAME_LIMIT)
    .replace(/^[-_]+|[-_]+$/g, "");
  return fitted === "" ? "server" : fitted;
}

/** Yields `name`, `name-2`, `name-3` …, each within the length limit. */
export function* generateServerNames(name: string): Generator<string> {
  yield name;
  for (let number = 2; number < 100; number++) {
    const suffix = `-${number}`;
    yield name.slice(0, NAME_LIMIT - suffix.length).replace(/[-_]+$/, "") + suffix;
  }
}

/** The server and the key, without the server if the key already starts with it. */
export function toSecretName(server: string, what: string): string {
  const [owner, own] = [toUpperSnake(server), toUpperSnake(what)];
  const [first = ""] = owner.split("_");
  const name = owner === "" || own === owner || own.startsWith(`${first}_`) ? own : [owner, own].join("_");
  const fitted = name.replace(/_+$/, "").slice(0, 100);
  return /^[A-Z]/.test(fitted) ? fitted : `_${fitted}`;
}

function toUpperSnake(text: string): string {
  return text
    .slice(0, NAME_LIMIT * 4)
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "");
}

export interface SecretDetector {
  readonly isSecretName: (name: string) => boolean;
  readonly findSpans: (text: string) => readonly (readonly [start: number, end: number])[];
}

/** `where` is the key, such as `env.GITHUB_TOKEN`. */
export type ExtractedSecret = { readonly name: string; readonly value: string; readonly where: string };

/** Such names usually hold a key. A needless secret does no harm. */
const ENDS_SECRET = /(?:^|[_\s-])(?:keys?|pat|dsn)$/i;
/** Never a secret. */
const HARMLESS = /^(?:|true|false|yes|no|on|off|none|null|\d{1,4})$/i;
/** Long, with both letters and digits: probably generated. */
const RANDOM = /^(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w+=-]{32,}$/;
/**
 * One word that no shell or interpreter acts on. The person who approves a server must see its command, so anything
 * else stays visible: the file may come from a stranger.
 */
const ONE_WORD = /^(["']?)(?:(?:Bearer|Basic|Token) )?[^\s"'`$;|&<>(){}\\]+\1$/i;
const REFERENCE = /(?<!\$)\$\{/;
const REFERENCES = /(?<!\$)\$\{[^{}]*\}/g;

/** Replaces the secrets in an entry by references. `nameFor` returns the final name for a suggested one. */
export async function extractSecrets(
  server: string,
  entry: ServerEntry,
  judge: SecretDetector,
  nameFor: (name: string, value: string) => Promise<string>,
): Promise<{ readonly entry: ServerEntry; readonly secrets: readonly ExtractedSecret[] }> {
  const secrets: ExtractedSecret[] = [];
  const isSecretName = (name: string) => judge.isSecretName(name) || ENDS_SECRET.test(name);

  async function takeSecret(text: string, what: string, where: string): Promise<string> {
    const value = text.replaceAll("$${", "${");
    const known = secrets.find((secret) => secret.value === value && secret.where === where);
    const name = known?.name ?? (await nameFor(toSecretName(server, what), value));
    if (known === undefined) secrets.push({ name, value, where });
    return `\${secret:${name}}`;
  }

  async function value(text: string, name: string, where: string): Promise<string> {
    const isCommand = !/^(?:env|headers)\./.test(where);
    if (!REFERENCE.test(text) && !HARMLESS.test(text) && (!isCommand || ONE_WORD.test(text))) {
      const [, scheme = "", rest = text] = /^((?:Bearer|Basic|Token)\s+)(\S.*)$/is.exec(text) ?? [];
      if (isSecretName(name) || RANDOM.test(text)) return scheme + (await takeSecret(rest, name, where));
    }
    return replaceSpans(text, name, where);
  }

  /** Replaces only the parts that look like a secret. */
  async function replaceSpans(text: string, what: string, where: string): Promise<string> {
    let done = "";
    let end = 0;
    // Skip references: `secret:NAME` itself looks like a secret.
    const references = [...text.matchAll(REFERENCES)].map((found) => [found.index, found.index + found[0].length]);
    let next = 0;
    for (const [start, stop] of judge.findSpans(text)) {
      while ((references[next]?.[1] ?? start + 1) <= start) next++;
      const isReference = (references[next]?.[0] ?? stop) < stop;
      const span = text.slice(start, stop);
      if (start < end || isReference || HARMLESS.test(span) || !ONE_WORD.test(span)) continue;
      done += text.slice(end, start) + (await takeSecret(span, what, where));
      end = stop;
    }
    return done + text.slice(end);
  }

  async function argument(args: readonly string[], at: number): Promise<string> {
    const [text = "", before = ""] = [args[at], args[at - 1]];
    const where = `args[${at}]`;
    const [, option, assigned] = /^(-{0,2}[A-Za-z_][\w.-]*=)(.*)$/s.exec(text) ?? [];
    if (option !== undefined && assigned !== undefined)
      return option + (await value(assigned, option.slice(0, -1), where));
    const flag = /^--?([A-Za-z][\w-]*)$/.exec(before)?.[1];
    if (flag !== undefined && !text.startsWith("-")) return value(text, flag, where);
    if (/^https?:\/\//i.test(text)) return address(text, where);
    return RANDOM.test(text) ? takeSecret(text, "argument", where) : replaceSpans(text, "argument", where);
  }

  async function address(url: string, where: string): Promise<string> {
    const [, place = "", query = "", rest = ""] = /^([^?#]*)(\?[^#]*)?(#.*)?$/s.exec(url) ?? [];
    const folders = await mapSequentially(place.split("/"), (part) =>
      RANDOM.test(part) ? takeSecret(part, "url", where) : part,
    );
    const pairs = await mapSequentially(query.split("&"), async (pair) => {
      const [, name = "", text] = /^([^=]*=)(.*)$/s.exec(pair) ?? [];
      return text === undefined ? pair : name + (await value(text, name.replace(/^\?|=$/g, ""), where));
    });
    return replaceSpans(folders.join("/") + pairs.join("&") + rest, "url", where);
  }

  async function record(texts: Readonly<Record<string, string>>, where: string) {
    const clean = async ([name, text]: [string, string]) => [name, await value(text, name, `${where}.${name}`)];
    return Object.fromEntries(await mapSequentially(Object.entries(texts), clean));
  }

  const { args, env, url, headers, oauth } = entry;
  const secret = oauth?.client_secret;
  const clean: ServerEntry = {
    ...entry,
    ...(args === undefined ? {} : { args: await mapSequentially(args, (_, at) => argument(args, at)) }),
    ...(env === undefined ? {} : { env: await record(env, "env") }),
    ...(url === undefined ? {} : { url: await address(url, "url") }),
    ...(headers === undefined ? {} : { headers: await record(headers, "headers") }),
    ...(secret === undefined || REFERENCE.test(secret)
      ? {}
      : { oauth: { ...oauth, client_secret: await takeSecret(secret, "client_secret", "oauth.client_secret") } }),
  };
  return { entry: clean, secrets };
}

/** In order, because the name of a secret depends on the ones before it. */
async function mapSequentially<From, To>(
  all: readonly From[],
  map: (each: From, at: number) => Promise<To> | To,
): Promise<readonly To[]> {
  const mapped: To[] = [];
  for (const [at, each] of all.entries()) mapped.push(await map(each, at));
  return mapped;
}
