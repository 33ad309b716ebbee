import { resolve } from "node:path";
import { QmError } from "../../../core/errors.ts";
import type { JsonObject } from "../../../core/json.ts";
import { quoteName } from "../../../core/names.ts";
import type { InstallPlanRequest } from "../../../mcp/install/install-planner.ts";

const SECRET_PARAMETER = /(?:^|[^a-z])(?:api)?(?:key|token|secret|password|passwd|pwd|auth|credentials?)$/i;
const REFERENCE = /^\$\{(?:env|secret):/;

/** A URL is shown, logged and written down: a secret in it is told to everybody. Throws `invalid_arguments`. */
function requireUrlWithoutSecret(text: string): void {
  if (!URL.canParse(text)) return;
  const { username, password, searchParams } = new URL(text);
  const parameter = [...searchParams].find(([name, value]) => isSecretName(name) && !REFERENCE.test(value))?.[0];
  if (username === "" && password === "" && parameter === undefined) return;
  const what = parameter === undefined ? "a name or a password" : `a secret, as ${JSON.stringify(parameter)}`;
  throw new QmError("invalid_arguments", `the URL holds ${what}`, {
    hint: `Store it with \`qm secrets set NAME\`, and give --header 'Authorization=Bearer \${secret:NAME}'.`,
  });
}

function isSecretName(name: string): boolean {
  return SECRET_PARAMETER.test(name.replace(/([a-z0-9])([A-Z])/g, "$1_$2"));
}

// Labels that say what a host is for, and suffixes of two labels.
const COMMON = /^(?:mcp|api|www|app|server|remote|gateway)$/;
const SECOND_LEVEL = /^(?:ac|co|com|edu|gov|net|or|org)$/;

/** What a server at that URL is called: `https://mcp.linear.app/sse` → `linear`. Undefined: its host says nothing. */
function deriveServerName(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const labels = new URL(text).hostname.split(".");
  const last = labels.pop() ?? "";
  // An address of numbers, or one name alone, as localhost.
  if (!/^[a-z]/.test(last) || labels.length === 0) return undefined;
  if (last.length === 2 && labels.length > 1 && SECOND_LEVEL.test(labels.at(-1) ?? "")) labels.pop();
  const name = labels.findLast((label) => !COMMON.test(label)) ?? labels.at(-1);
  return name !== undefined && /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name) ? name.slice(0, 40) : undefined;
}

export interface AddServerOptions {
  readonly name?: string;
  readonly env?: readonly string[];
  readonly header?: readonly string[];
  readonly input?: readonly string[];
  readonly choose?: string;
  readonly cwd?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/** Where somebody stands, and where the configuration is. */
interface InstallFolders {
  readonly cwd: string;
  readonly configFolder: string;
}

/** The action that installs what was typed, with its arguments, and the same as a request for a plan. */
interface InstallCall {
  readonly action: string;
  readonly args: JsonObject;
  readonly request: InstallPlanRequest;
}

/** Throws `invalid_arguments` for what cannot be read, and for options that would mean nothing. */
export function buildInstallCall(
  what: string,
  given: readonly string[],
  options: AddServerOptions,
  { cwd, configFolder }: InstallFolders,
): InstallCall {
  const { name, choose } = options;
  const { form, rest } = detectServerForm(what);
  requireFittingOptions(form, given, options);
  const env = parseNameValuePairs(options.env, "--env");
  switch (form) {
    case "registry": {
      const [id, version] = splitVersion(rest);
      const inputs = { ...env, ...parseNameValuePairs(options.input, "--input") };
      return {
        action: "mcp__install_registry",
        args: omitUndefinedEntries({ server_id: id, version, name, choose, inputs }),
        request: { from: "registry", id, version, name, choose, inputs },
      };
    }
    case "url": {
      requireUrlWithoutSecret(what);
      const called = name ?? deriveServerName(what);
      if (called === undefined) throw createUnnamedError("no name can be made from this URL");
      return buildLocalCall({
        name: called,
        url: what,
        args: [],
        env,
        headers: parseNameValuePairs(options.header, "--header"),
      });
    }
    case "command": {
      if (name === undefined) throw createUnnamedError("a command needs a name");
      const folder = options.cwd === undefined ? cwd : resolveFolder(options.cwd, cwd);
      // Where the configuration is, is where a command runs anyway.
      const where = options.cwd === undefined && folder === configFolder ? {} : { cwd: folder };
      return buildLocalCall({ name, command: what, args: [...given], env, headers: {}, ...where });
    }
    default: {
      const [identifier, version] = form === "npm" || form === "pypi" ? splitVersion(rest) : [rest, undefined];
      return {
        action: "mcp__install_package",
        args: omitUndefinedEntries({ kind: form, identifier, version, name, args: [...given], env }),
        request: { from: "package", kind: form, identifier, version, name, args: given, env },
      };
    }
  }
}

function buildLocalCall(
  server: Omit<Extract<InstallPlanRequest, { from: "local" }>, "from"> & JsonObject,
): InstallCall {
  return { action: "mcp__install_local", args: { ...server }, request: { from: "local", ...server } };
}

function createUnnamedError(message: string): QmError {
  return new QmError("invalid_arguments", message, { hint: "Give --name <name>." });
}

/** The configuration takes paths from its own folder, and whoever types one from where they are. */
function resolveFolder(folder: string, cwd: string): string {
  return folder.startsWith("${") ? folder : resolve(cwd, folder);
}

/** `package@1.2.3` as both parts; the `@` of a scope is no version's. */
function splitVersion(text: string): readonly [string, string | undefined] {
  const at = text.lastIndexOf("@");
  return at > 0 ? [text.slice(0, at), text.slice(at + 1)] : [text, undefined];
}

function parseNameValuePairs(given: readonly string[] | undefined, option: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    (given ?? []).map((text) => {
      const at = text.indexOf("=");
      if (at < 1)
        throw new QmError("invalid_arguments", `${option} ${text.slice(0, 40)} has no name and value`, {
          hint: `Write it as ${option} NAME=value.`,
        });
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}

function omitUndefinedEntries(entries: Record<string, JsonObject[string] | undefined>): JsonObject {
  return Object.fromEntries(
    Object.entries(entries).filter((entry): entry is [string, JsonObject[string]] => entry[1] !== undefined),
  );
}

/** What kind of thing was typed as the server to add. */
type ServerForm = "npm" | "pypi" | "docker" | "github" | "registry" | "url" | "command";

const FORMS =
  "npm:<package>[@version], pypi:<package>[@version], docker:<image:tag>, registry:<id>[@version], a GitHub URL, the http or https URL of a server, or a command";

const PREFIXED = /^(npm|pypi|docker|registry):(.+)$/;

/** The form, and what is behind its prefix. Throws `invalid_arguments` for a form that nobody knows. */
function detectServerForm(what: string): { readonly form: ServerForm; readonly rest: string } {
  const [, prefix, rest = ""] = PREFIXED.exec(what) ?? [];
  if (prefix !== undefined) return { form: prefix as ServerForm, rest };
  if (/^https:\/\/github\.com\//.test(what)) return { form: "github", rest: what };
  if (/^https?:\/\//i.test(what)) return { form: "url", rest: what };
  // A single letter is a drive.
  if (/^[a-z][a-z0-9+.-]+:/i.test(what))
    throw new QmError("invalid_arguments", `${quoteName(what)} has no form that is known here`, {
      hint: `Give one of: ${FORMS}.`,
    });
  return { form: "command", rest: what };
}

const PACKAGES: readonly ServerForm[] = ["npm", "pypi", "docker", "github"];

/** Which forms an option means something to. */
const formsByOption: Readonly<Record<"env" | "header" | "input" | "choose" | "cwd", readonly ServerForm[]>> = {
  env: [...PACKAGES, "registry", "command"],
  header: ["url"],
  input: ["registry"],
  choose: ["registry"],
  cwd: ["command"],
};

const formTitles: Readonly<Record<ServerForm, string>> = {
  npm: "a package",
  pypi: "a package",
  docker: "an image",
  github: "a repository",
  registry: "a server of the registry",
  url: "the URL of a server",
  command: "a command",
};

/** What would be left out in silence is refused. Throws `invalid_arguments`. */
function requireFittingOptions(form: ServerForm, given: readonly string[], options: AddServerOptions): void {
  for (const [option, forms] of Object.entries(formsByOption) as readonly [
    keyof typeof formsByOption,
    readonly ServerForm[],
  ][]) {
    if (options[option] === undefined || forms.includes(form)) continue;
    const where = forms.length > 1 ? "whatever is started here" : formTitles[forms[0] ?? form];
    throw new QmError("invalid_arguments", `--${option} means nothing with ${formTitles[form]}`, {
      hint: `It is for ${where}. Leave it out.`,
    });
  }
  if (given.length > 0 && (form === "url" || form === "registry"))
    throw new QmError("invalid_arguments", `${formTitles[form]} takes no arguments`, {
      hint: form === "registry" ? "Give what it asks for with --input <name=value>." : "Leave them out.",
    });
}
