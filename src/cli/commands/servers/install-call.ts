import { resolve } from "node:path";
import { QmError } from "../../../core/errors.ts";
import { type JsonObject, omitUndefined } from "../../../core/json.ts";
import { quoteName } from "../../../core/names.ts";
import type { InstallPlanRequest } from "../../../mcp/install/install-planner.ts";
import { createUsageError } from "../../exit-codes.ts";

type RepeatedOptions = Readonly<{ env?: readonly string[]; header?: readonly string[]; input?: readonly string[] }>;
type PlainOptions = Readonly<{ name?: string; choose?: string; cwd?: string; dryRun?: boolean; yes?: boolean }>;
export type AddServerOptions = RepeatedOptions & PlainOptions;

/** The action that installs the server, its arguments, and the same as a request for a plan. */
type InstallCall = { readonly action: string; readonly args: JsonObject; readonly request: InstallPlanRequest };
const NAME_HINT = "Give --name <name>.";

/** Throws `invalid_arguments` for an unknown form, and for options that this form does not use. */
export function buildInstallCall(
  what: string,
  commandArgs: readonly string[],
  options: AddServerOptions,
  { cwd, configFolder }: Readonly<Record<"cwd" | "configFolder", string>>,
): InstallCall {
  const { name, choose } = options;
  const { form, rest } = detectServerForm(what);
  requireFittingOptions(form, commandArgs, options);
  const env = parseNameValuePairs(options.env, "--env");
  switch (form) {
    case "registry": {
      const [id, version] = splitVersion(rest);
      const inputs = { ...env, ...parseNameValuePairs(options.input, "--input") };
      return {
        action: "mcp__install_registry",
        args: omitUndefined({ server_id: id, version, name, choose, inputs }),
        request: { from: "registry", id, version, name, choose, inputs },
      };
    }
    case "url": {
      requireUrlWithoutSecret(what);
      const derived = name ?? deriveServerName(what);
      if (derived === undefined) throw createUsageError("no name can be derived from this URL", NAME_HINT);
      const headers = parseNameValuePairs(options.header, "--header");
      return buildLocalCall({ name: derived, url: what, args: [], env, headers });
    }
    case "command": {
      if (name === undefined) throw createUsageError("a command needs a name", NAME_HINT);
      // Paths in the configuration start at its folder, those on the command line at the current one.
      const folder = options.cwd?.startsWith("${") ? options.cwd : resolve(cwd, options.cwd ?? "");
      // The folder of the configuration is the default.
      const where = options.cwd === undefined && folder === configFolder ? {} : { cwd: folder };
      return buildLocalCall({ name, command: what, args: [...commandArgs], env, headers: {}, ...where });
    }
    default: {
      const [identifier, version] = form === "npm" || form === "pypi" ? splitVersion(rest) : [rest, undefined];
      return {
        action: "mcp__install_package",
        args: omitUndefined({ kind: form, identifier, version, name, args: [...commandArgs], env }),
        request: { from: "package", kind: form, identifier, version, name, args: commandArgs, env },
      };
    }
  }
}

type LocalServer = Omit<Extract<InstallPlanRequest, { from: "local" }>, "from"> & JsonObject;

function buildLocalCall(server: LocalServer): InstallCall {
  return { action: "mcp__install_local", args: { ...server }, request: { from: "local", ...server } };
}

/** Splits `package@1.2.3`. The `@` of a scope starts no version. */
function splitVersion(text: string): readonly [string, string | undefined] {
  const at = text.lastIndexOf("@");
  return at > 0 ? [text.slice(0, at), text.slice(at + 1)] : [text, undefined];
}

function parseNameValuePairs(pairs: readonly string[] = [], option: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    pairs.map((text) => {
      const at = text.indexOf("=");
      if (at >= 1) return [text.slice(0, at), text.slice(at + 1)];
      const message = `${option} ${text.slice(0, 40)} has no name and value`;
      throw createUsageError(message, `Write it as ${option} NAME=value.`);
    }),
  );
}

type ServerForm = "npm" | "pypi" | "docker" | "github" | "registry" | "url" | "command";

function detectServerForm(what: string): { readonly form: ServerForm; readonly rest: string } {
  const [, prefix, rest = ""] = /^(npm|pypi|docker|registry):(.+)$/.exec(what) ?? [];
  if (prefix !== undefined) return { form: prefix as ServerForm, rest };
  if (/^https:\/\/github\.com\//.test(what)) return { form: "github", rest: what };
  if (/^https?:\/\//i.test(what)) return { form: "url", rest: what };
  // A single letter is a Windows drive.
  if (/^[a-z][a-z0-9+.-]+:/i.test(what))
    throw new QmError("invalid_arguments", `unknown form of server ${quoteName(what)}`, {
      hint: "Give one of: npm:<package>[@version], pypi:<package>[@version], docker:<image:tag>, registry:<id>[@version], a GitHub URL, the http or https URL of a server, or a command.",
    });
  return { form: "command", rest: what };
}

const formsByOption = {
  env: ["npm", "pypi", "docker", "github", "registry", "command"],
  header: ["url"],
  input: ["registry"],
  choose: ["registry"],
  cwd: ["command"],
} as const satisfies Partial<Record<keyof AddServerOptions, readonly ServerForm[]>>;

const formTitles: Readonly<Record<ServerForm, string>> = {
  npm: "a package",
  pypi: "a package",
  docker: "an image",
  github: "a repository",
  registry: "a registry server",
  url: "the URL of a server",
  command: "a command",
};

/** Throws for an option that would have no effect. */
function requireFittingOptions(form: ServerForm, commandArgs: readonly string[], options: AddServerOptions): void {
  for (const option of ["env", "header", "input", "choose", "cwd"] as const) {
    const forms: readonly ServerForm[] = formsByOption[option];
    if (options[option] === undefined || forms.includes(form)) continue;
    const where = forms.length > 1 ? "servers that are started on this machine" : formTitles[forms[0] ?? form];
    throw createUsageError(`--${option} has no effect on ${formTitles[form]}`, `It is for ${where}. Leave it out.`);
  }
  if (commandArgs.length > 0 && (form === "url" || form === "registry"))
    throw new QmError("invalid_arguments", `${formTitles[form]} takes no arguments`, {
      hint: form === "registry" ? "Give its inputs with --input <name=value>." : "Leave them out.",
    });
}

const SECRET_PARAMETER = /(?:^|[^a-z])(?:api)?(?:key|token|secret|password|passwd|pwd|auth|credentials?)$/i;
const REFERENCE = /^\$\{(?:env|secret):/;

/** A URL is displayed, logged and written to the configuration, so it must hold no secret. */
function requireUrlWithoutSecret(text: string): void {
  if (!URL.canParse(text)) return;
  const { username, password, searchParams } = new URL(text);
  const parameter = [...searchParams].find(
    ([name, value]) => SECRET_PARAMETER.test(name.replace(/([a-z0-9])([A-Z])/g, "$1_$2")) && !REFERENCE.test(value),
  )?.[0];
  if (username === "" && password === "" && parameter === undefined) return;
  const what = parameter === undefined ? "a user name or a password" : `a secret in ${JSON.stringify(parameter)}`;
  throw new QmError("invalid_arguments", `the URL holds ${what}`, {
    hint: `Store it with \`qm secrets set NAME\`, and give --header 'Authorization=Bearer \${secret:NAME}'.`,
  });
}

const GENERIC_LABEL = /^(?:mcp|api|www|app|server|remote|gateway)$/;
const SECOND_LEVEL = /^(?:ac|co|com|edu|gov|net|or|org)$/;

/** Derives a name from the host of a URL: `https://mcp.linear.app/sse` gives `linear`. */
function deriveServerName(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const labels = new URL(text).hostname.split(".");
  const last = labels.pop() ?? "";
  // An IP address, or a single label such as localhost.
  if (!/^[a-z]/.test(last) || labels.length === 0) return undefined;
  if (last.length === 2 && labels.length > 1 && SECOND_LEVEL.test(labels.at(-1) ?? "")) labels.pop();
  const name = labels.findLast((label) => !GENERIC_LABEL.test(label)) ?? labels.at(-1);
  return name !== undefined && /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name) ? name.slice(0, 40) : undefined;
}
