import { QmError } from "../../core/errors.ts";
import { quoted } from "../../core/names.ts";
import type { Launch } from "../server-spec.ts";
import { givenArguments, givenPairs, givenWord, requireHttp } from "./given-launch.ts";
import { type InstallPlan, sealed } from "./install-plan.ts";
import { chosenName } from "./local-name.ts";
import { launchWarnings, lookalikeWarnings } from "./warnings.ts";

export interface LocalRequest {
  readonly name: string;
  readonly command?: string | undefined;
  readonly args?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly cwd?: string | undefined;
  /** In place of a command: a server that runs elsewhere. */
  readonly url?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

/** What adding a command of this machine, or the URL of a server, would mean. */
export function planLocal(request: LocalRequest): InstallPlan {
  const { name, command, url } = request;
  if ((command === undefined) === (url === undefined)) {
    throw new QmError("invalid_arguments", "a server is either a command or a URL", { hint: "Give one of the two." });
  }
  const launch = command === undefined ? remote(request) : program(command, request);
  const isWhole = launch.kind === "http" && URL.canParse(launch.url);
  return sealed({
    name: chosenName(name),
    launch,
    source: launch.kind === "http" ? "url" : "local",
    hosts: isWhole ? [new URL(launch.url).host] : [],
    missing: [],
    warnings: [
      ...(launch.kind === "stdio" ? runnerWarnings(launch.command, launch.args) : []),
      ...launchWarnings(launch),
    ],
  });
}

function remote({ url = "", headers = {} }: LocalRequest): Launch {
  const written = givenWord(url, "url");
  if (!written.includes("${")) requireHttp(written);
  return { kind: "http", url: written, headers: givenPairs(headers, "header") };
}

function program(text: string, { args = [], env = {}, cwd }: LocalRequest): Launch {
  const command = givenWord(text, "command");
  if (command.trim() === "")
    throw new QmError("invalid_arguments", "the command is empty", { hint: "Name a program." });
  // Otherwise it would be looked for under that whole name, and only be missed when it is started.
  if (args.length === 0 && /^\s*[\w.-]+\s+\S/.test(command)) {
    throw new QmError("invalid_arguments", `${quoted(command)} is a program and its arguments in one`, {
      hint: "Give the program as the command and the rest as args, one by one: no shell takes them apart.",
    });
  }
  return {
    kind: "stdio",
    command,
    args: givenArguments(args),
    env: givenPairs(env, "env"),
    ...(cwd === undefined ? {} : { cwd: givenWord(cwd, "cwd") }),
  };
}

/** A package that a runner fetches by name alone is another one tomorrow. */
function runnerWarnings(command: string, args: readonly string[]): readonly string[] {
  const runner = /(?:^|[/\\])(npx|bunx|uvx|dnx)(?:\.cmd|\.exe)?$/.exec(command)?.[1];
  const spec = args.find((arg) => !arg.startsWith("-"));
  if (runner === undefined || spec === undefined || /^(?:\.|\/|[a-z+]+:)/.test(spec)) return [];
  const name = runner === "uvx" ? (spec.split(/==|@/)[0] ?? spec) : spec.replace(/(?<=.)@.*$/, "");
  const version = spec.slice(name.length).replace(/^(?:==|@)/, "");
  const isExact = /^v?\d[\w.+-]*$/.test(version);
  return [
    ...(isExact ? [] : [`${name} has no exact version: what is run can change from one start to the next`]),
    ...lookalikeWarnings(name),
  ];
}
