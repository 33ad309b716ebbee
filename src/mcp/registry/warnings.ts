import { basename } from "node:path";
import { editDistance } from "../../core/nearest.ts";
import { oneLine } from "../../core/plain-text.ts";
import type { Launch, StdioLaunch } from "../server-spec.ts";
import { hasOddCharacters } from "./command-line.ts";
import { isLoopback } from "./http.ts";

const SHELLS = /^(?:(?:ba|z|da|k|fi|c|tc)?sh|cmd|powershell|pwsh)(?:\.exe)?$/i;
const METACHARACTERS = /[;&|`<>\n]|\$\(|(?<!\$)\$(?!\$?\{)/;
const REFERENCE = /(?<!\$)\$\{(?:secret|env):[A-Za-z_][A-Za-z0-9_]*\}/;

/** What a person should look at before agreeing to a launch, whatever it came from. */
export function launchWarnings(launch: Launch): readonly string[] {
  if (launch.kind === "http") return [...urlWarnings(launch.url), ...oddWarnings([launch.url])];
  const { command, args } = launch;
  const argv = [command, ...args];
  const program = basename(command.replaceAll("\\", "/"));
  return [
    ...(SHELLS.test(program) ? [`it starts a shell (${oneLine(program)}), which can run anything`] : []),
    ...(/^(?:sudo|doas|su)$/.test(program) ? ["it runs with the rights of another user"] : []),
    ...(args.some((arg) => METACHARACTERS.test(arg))
      ? ["an argument holds characters that a shell would act on; no shell reads them here"]
      : []),
    ...(args.some((arg) => REFERENCE.test(arg))
      ? ["a secret is handed over on its command line, where other programs on this machine can see it"]
      : []),
    ...(/^(?:docker|podman)(?:\.exe)?$/.test(program) ? containerWarnings(launch) : []),
    ...oddWarnings(argv),
  ];
}

function urlWarnings(text: string): readonly string[] {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.protocol === "https:" || isLoopback(url)) return [];
  return [`${oneLine(url.origin)} is reached without encryption: others can read and change what goes there`];
}

function oddWarnings(texts: readonly string[]): readonly string[] {
  return texts.some(hasOddCharacters) ? ["it holds characters that look like others, or like nothing at all"] : [];
}

/** Options of a container that let it out of its box. */
function containerWarnings({ args }: StdioLaunch): readonly string[] {
  const found: string[] = [];
  args.forEach((arg, at) => {
    const [name = "", inline] = splitOption(arg);
    const value = inline ?? args[at + 1] ?? "";
    if (name === "--privileged") found.push("the container is privileged: it can do everything on this machine");
    else if (/^(?:-v|--volume|--mount)$/.test(name)) found.push(...mountWarnings(value));
    else if (/^--(?:network|net|pid|ipc|uts|userns)$/.test(name) && value === "host")
      found.push(`the container shares this machine's ${name.slice(2)}`);
    else if (/^--(?:cap-add|device|security-opt|volumes-from)$/.test(name))
      found.push(`the container is let out of its box with ${oneLine(arg)}`);
  });
  return found;
}

function mountWarnings(value: string): readonly string[] {
  const source = /(?:^|,)(?:src|source)=([^,]*)/.exec(value)?.[1] ?? value.split(":")[0] ?? "";
  // A name without a slash is a volume of the container's own.
  if (!/[/\\~.<]/.test(source)) return [];
  if (/docker\.sock$/.test(source)) return ["the container can command Docker: it can do everything on this machine"];
  const isAll =
    /^(?:[/\\~]|[A-Za-z]:[/\\]?)$/.test(source) || /^\/(?:etc|home|root|usr|var|proc|sys|dev)\/?$/.test(source);
  return [isAll ? `the container sees all of ${oneLine(source)}` : `the container sees the folder ${oneLine(source)}`];
}

function splitOption(arg: string): readonly [string, string | undefined] {
  const at = arg.indexOf("=");
  return at > 0 && arg.startsWith("--") ? [arg.slice(0, at), arg.slice(at + 1)] : [arg, undefined];
}

/** Packages that others are likely to be named after. */
const KNOWN = [
  "@modelcontextprotocol/server-everything",
  "@modelcontextprotocol/server-filesystem",
  "@modelcontextprotocol/server-github",
  "@modelcontextprotocol/server-gitlab",
  "@modelcontextprotocol/server-google-maps",
  "@modelcontextprotocol/server-memory",
  "@modelcontextprotocol/server-postgres",
  "@modelcontextprotocol/server-puppeteer",
  "@modelcontextprotocol/server-redis",
  "@modelcontextprotocol/server-sequential-thinking",
  "@modelcontextprotocol/server-slack",
  "@modelcontextprotocol/server-brave-search",
  "@playwright/mcp",
  "@notionhq/notion-mcp-server",
  "@supabase/mcp-server-supabase",
  "@upstash/context7-mcp",
  "@sentry/mcp-server",
  "@stripe/mcp",
  "airtable-mcp-server",
  "chrome-devtools-mcp",
  "firecrawl-mcp",
  "mcp-remote",
  "tavily-mcp",
  "awslabs.aws-documentation-mcp-server",
  "mcp-server-fetch",
  "mcp-server-git",
  "mcp-server-time",
  "mcp-server-sqlite",
  "mcp-atlassian",
  "mcp/filesystem",
];

/** A package whose name, or whose owner's, differs from a well-known one by a single letter. */
export function lookalikeWarnings(identifier: string): readonly string[] {
  const name = identifier.toLowerCase();
  if (KNOWN.includes(name)) return [];
  const near = KNOWN.find((known) => editDistance(name, known, 1) === 1);
  if (near !== undefined) return [`${oneLine(identifier)} is nearly, but not, the well-known ${near}`];
  const scope = scopeOf(name);
  const owners = KNOWN.flatMap((known) => scopeOf(known) ?? []);
  const owner =
    scope === undefined || owners.includes(scope) ? undefined : owners.find((one) => editDistance(scope, one, 1) === 1);
  return owner === undefined ? [] : [`${oneLine(scope ?? "")} is nearly, but not, the well-known ${owner}`];
}

function scopeOf(name: string): string | undefined {
  return /^(@[^/]{6,})\//.exec(name)?.[1];
}
