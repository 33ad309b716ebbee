import { resolve } from "node:path";
import { QmError } from "../../../core/errors.ts";
import type { JsonObject } from "../../../core/json.ts";
import type { PlanRequest } from "../../../mcp/registry/planner.ts";
import { nameOfUrl, requireNoSecret } from "./server-url.ts";
import { formOf, requireFitting } from "./what-form.ts";

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

/** Where somebody stands, and where the configuration is. */
export interface Places {
  readonly cwd: string;
  readonly configFolder: string;
}

/** The action that installs what was typed, with its arguments, and the same as a request for a plan. */
export interface InstallCall {
  readonly action: string;
  readonly args: JsonObject;
  readonly request: PlanRequest;
}

/** Throws `invalid_arguments` for what cannot be read, and for options that would mean nothing. */
export function installCall(
  what: string,
  given: readonly string[],
  options: AddOptions,
  { cwd, configFolder }: Places,
): InstallCall {
  const { name, choose } = options;
  const { form, rest } = formOf(what);
  requireFitting(form, given, options);
  const env = pairs(options.env, "--env");
  switch (form) {
    case "registry": {
      const [id, version] = versioned(rest);
      const inputs = { ...env, ...pairs(options.input, "--input") };
      return {
        action: "mcp__install_registry",
        args: defined({ server_id: id, version, name, choose, inputs }),
        request: { from: "registry", id, version, name, choose, inputs },
      };
    }
    case "url": {
      requireNoSecret(what);
      const called = name ?? nameOfUrl(what);
      if (called === undefined) throw unnamed("no name can be made from this URL");
      return local({ name: called, url: what, args: [], env, headers: pairs(options.header, "--header") });
    }
    case "command": {
      if (name === undefined) throw unnamed("a command needs a name");
      const folder = options.cwd === undefined ? cwd : fromHere(options.cwd, cwd);
      // Where the configuration is, is where a command runs anyway.
      const where = options.cwd === undefined && folder === configFolder ? {} : { cwd: folder };
      return local({ name, command: what, args: [...given], env, headers: {}, ...where });
    }
    default: {
      const [identifier, version] = form === "npm" || form === "pypi" ? versioned(rest) : [rest, undefined];
      return {
        action: "mcp__install_package",
        args: defined({ kind: form, identifier, version, name, args: [...given], env }),
        request: { from: "package", kind: form, identifier, version, name, args: given, env },
      };
    }
  }
}

function local(server: Omit<Extract<PlanRequest, { from: "local" }>, "from"> & JsonObject): InstallCall {
  return { action: "mcp__install_local", args: { ...server }, request: { from: "local", ...server } };
}

function unnamed(message: string): QmError {
  return new QmError("invalid_arguments", message, { hint: "Give --name <name>." });
}

/** The configuration takes paths from its own folder, and whoever types one from where they are. */
function fromHere(folder: string, cwd: string): string {
  return folder.startsWith("${") ? folder : resolve(cwd, folder);
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
