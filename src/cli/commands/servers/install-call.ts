import { QmError } from "../../../core/errors.ts";
import type { JsonObject } from "../../../core/json.ts";
import type { PlanRequest } from "../../../mcp/registry/planner.ts";

export interface AddOptions {
  readonly name?: string;
  readonly env?: readonly string[];
  readonly header?: readonly string[];
  readonly input?: readonly string[];
  readonly choose?: string;
  readonly cwd?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/** The action that installs what was typed, with its arguments, and the same as a request for a plan. */
export interface InstallCall {
  readonly action: string;
  readonly args: JsonObject;
  readonly request: PlanRequest;
}

export function installCall(what: string, given: readonly string[], options: AddOptions): InstallCall {
  const { name, choose, cwd } = options;
  const env = pairs(options.env, "--env");
  const inputs = { ...env, ...pairs(options.input, "--input") };
  const [, scheme, rest = ""] = /^(npm|pypi|docker|registry):(.+)$/.exec(what) ?? [];
  if (scheme === "registry") {
    const [id, version] = versioned(rest);
    return {
      action: "mcp__install_registry",
      args: defined({ server_id: id, version, name, choose, inputs }),
      request: { from: "registry", id, version, name, choose, inputs },
    };
  }
  const kind = scheme ?? (/^https:\/\/github\.com\//.test(what) ? "github" : undefined);
  if (kind === "npm" || kind === "pypi" || kind === "docker" || kind === "github") {
    const [identifier, version] = kind === "npm" || kind === "pypi" ? versioned(rest) : [rest || what, undefined];
    return {
      action: "mcp__install_package",
      args: defined({ kind, identifier, version, name, args: [...given], env }),
      request: { from: "package", kind, identifier, version, name, args: given, env },
    };
  }
  const isUrl = /^https?:\/\//.test(what);
  const called = name ?? (isUrl ? new URL(what).hostname.split(".").at(-2) : undefined) ?? "";
  if (called === "") throw new QmError("invalid_arguments", "a command needs a name", { hint: "Give --name <name>." });
  const headers = pairs(options.header, "--header");
  const local = isUrl
    ? { name: called, url: what, args: [], env: {}, headers }
    : { name: called, command: what, args: [...given], env, headers, ...(cwd === undefined ? {} : { cwd }) };
  return { action: "mcp__install_local", args: { ...local }, request: { from: "local", ...local } };
}

/** `package@1.2.3` as both parts; the `@` of a scope is no version's. */
function versioned(text: string): readonly [string, string | undefined] {
  const at = text.lastIndexOf("@");
  return at > 0 ? [text.slice(0, at), text.slice(at + 1)] : [text, undefined];
}

function pairs(given: readonly string[] | undefined, option: string): Readonly<Record<string, string>> {
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

function defined(entries: Record<string, JsonObject[string] | undefined>): JsonObject {
  return Object.fromEntries(
    Object.entries(entries).filter((entry): entry is [string, JsonObject[string]] => entry[1] !== undefined),
  );
}
