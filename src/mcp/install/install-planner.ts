import { quoteName } from "../../core/names.ts";
import type { Launch } from "../server-spec.ts";
import { createInputError } from "./input-error.ts";
import type { InstallInputs } from "./input-resolver.ts";
import { type InstallPlan, sealPlan } from "./install-plan.ts";
import { checkArguments, checkPairs, checkWord, requireHttpUrl, requireServerName } from "./launch-input.ts";
import { getLaunchWarnings, getLookalikeWarnings } from "./launch-warnings.ts";
import { type PackagePlanOptions, type PackageRequest, planFromPackage } from "./plan-package.ts";
import { planFromRegistry, type RegistryPlanOptions } from "./plan-registry-server.ts";
import type { ServerRegistry } from "./server-registry.ts";

interface LocalServerRequest {
  readonly name: string;
  readonly command?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly cwd?: string | undefined;
  /** A remote server, instead of a command. */
  readonly url?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** Plans a local command or the URL of a server. */
export function planLocal(request: LocalServerRequest): InstallPlan {
  const { name, command, url } = request;
  if ((command === undefined) === (url === undefined))
    throw createInputError("a server is either a command or a URL", "Use one of them.");
  const launch = command === undefined ? createRemoteLaunch(request) : createProgramLaunch(command, request);
  const isHttp = launch.kind === "http";
  const runnerWarnings = isHttp ? [] : getRunnerWarnings(launch.command, launch.args);
  return sealPlan({
    name: requireServerName(name),
    launch,
    source: isHttp ? "url" : "local",
    hosts: isHttp && URL.canParse(launch.url) ? [new URL(launch.url).host] : [],
    missing: [],
    warnings: [...runnerWarnings, ...getLaunchWarnings(launch)],
  });
}

function createRemoteLaunch({ url = "", headers = {} }: LocalServerRequest): Launch {
  const written = checkWord(url, "url");
  if (!written.includes("${")) requireHttpUrl(written);
  return { kind: "http", url: written, headers: checkPairs(headers, "header") };
}

function createProgramLaunch(text: string, { args = [], env = {}, cwd }: LocalServerRequest): Launch {
  const command = checkWord(text, "command");
  if (command.trim() === "") throw createInputError("the command is empty", "Name a program.");
  // Otherwise the whole text would be taken as a program name, and fail only at the start.
  if (args.length === 0 && /^\s*[\w.-]+\s+\S/.test(command)) {
    const hint = "Pass the program as the command and each argument as an item of args: no shell splits them.";
    throw createInputError(`${quoteName(command)} combines a program and its arguments`, hint);
  }
  const launch = { kind: "stdio", command, args: checkArguments(args), env: checkPairs(env, "env") } as const;
  return cwd === undefined ? launch : { ...launch, cwd: checkWord(cwd, "cwd") };
}

/** A package without a version may change at any time. */
function getRunnerWarnings(command: string, args: readonly string[]): readonly string[] {
  const runner = /(?:^|[/\\])(npx|bunx|uvx|dnx)(?:\.cmd|\.exe)?$/.exec(command)?.[1];
  const spec = args.find((arg) => !arg.startsWith("-"));
  if (runner === undefined || spec === undefined || /^(?:\.|\/|[a-z+]+:)/.test(spec)) return [];
  const name = runner === "uvx" ? (spec.split(/==|@/)[0] ?? spec) : spec.replace(/(?<=.)@.*$/, "");
  const version = spec.slice(name.length).replace(/^(?:==|@)/, "");
  const isExact = /^v?\d[\w.+-]*$/.test(version);
  const pinWarnings = isExact ? [] : [`${name} has no exact version: the code can change between starts`];
  return [...pinWarnings, ...getLookalikeWarnings(name)];
}

type RegistryRequest = {
  readonly id: string;
  readonly version?: string | undefined;
  readonly inputs: InstallInputs;
} & Pick<RegistryPlanOptions, "name" | "choose">;

export type InstallPlanRequest =
  | ({ readonly from: "registry" } & RegistryRequest)
  | ({ readonly from: "package" } & PackageRequest)
  | ({ readonly from: "local" } & LocalServerRequest);

export interface InstallPlannerOptions
  extends PackagePlanOptions,
    Pick<RegistryPlanOptions, "bundleFolder" | "hasCommand" | "platform" | "home"> {
  readonly registry: Pick<ServerRegistry, "get" | "url">;
  readonly secretNames: () => Promise<readonly string[]>;
}

/** Creates plans from requests of every kind. Planning changes nothing. */
export function createInstallPlanner(
  options: InstallPlannerOptions,
): (request: InstallPlanRequest, signal?: AbortSignal) => Promise<InstallPlan> {
  const { registry, secretNames } = options;
  return async (request, signal) => {
    if (request.from === "local") return planLocal(request);
    if (request.from === "package") return planFromPackage(request, options, signal);
    const { id, version, name, choose, inputs } = request;
    const entry = await registry.get(id, { version, signal });
    const secrets = new Set(await secretNames());
    return planFromRegistry(entry, inputs, { ...options, registry: registry.url, secrets, name, choose }, signal);
  };
}
