import { basename } from "node:path";
import { toOneLine } from "../../core/display-text.ts";
import { isLoopback } from "../../core/loopback.ts";
import { editDistance } from "../../core/nearest.ts";
import type { Launch, StdioLaunch } from "../server-spec.ts";
import { hasUnusualCharacters } from "./install-plan.ts";

const SHELLS = /^(?:(?:ba|z|da|k|fi|c|tc)?sh|cmd|powershell|pwsh)(?:\.exe)?$/i;
const METACHARACTERS = /[;&|`<>\n]|\$\(|(?<!\$)\$(?!\$?\{)/;
const REFERENCE = /(?<!\$)\$\{(?:secret|env):[A-Za-z_][A-Za-z0-9_]*\}/;

/** Warnings that an approver should see before a launch. */
export function getLaunchWarnings(launch: Launch): readonly string[] {
  if (launch.kind === "http") return [...getUrlWarnings(launch.url), ...getCharacterWarnings([launch.url])];
  const { command, args } = launch;
  const program = basename(command.replaceAll("\\", "/"));
  const found: string[] = [];
  if (SHELLS.test(program)) found.push(`it starts a shell (${toOneLine(program)}), which can run anything`);
  if (/^(?:sudo|doas|su)$/.test(program)) found.push("it runs with another user's rights");
  if (args.some((arg) => METACHARACTERS.test(arg)))
    found.push("an argument contains shell characters; no shell interprets them");
  if (args.some((arg) => REFERENCE.test(arg)))
    found.push("a secret is passed on the command line, where other programs on this machine can see it");
  if (/^(?:docker|podman)(?:\.exe)?$/.test(program)) found.push(...getContainerWarnings(launch));
  return [...found, ...getCharacterWarnings([command, ...args])];
}

function getUrlWarnings(text: string): readonly string[] {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || url.protocol === "https:" || isLoopback(url)) return [];
  return [`${toOneLine(url.origin)} is not encrypted: others can read and change the traffic`];
}

function getCharacterWarnings(texts: readonly string[]): readonly string[] {
  return texts.some(hasUnusualCharacters) ? ["it contains look-alike or invisible characters"] : [];
}

/** Options that give a container access to the host. */
function getContainerWarnings({ args }: StdioLaunch): readonly string[] {
  const found: string[] = [];
  args.forEach((arg, at) => {
    const [name = "", inline] = splitOption(arg);
    const value = inline ?? args[at + 1] ?? "";
    if (name === "--privileged") found.push("the container is privileged: it can do everything on this machine");
    else if (/^(?:-v|--volume|--mount)$/.test(name)) found.push(...getMountWarnings(value));
    else if (/^--(?:network|net|pid|ipc|uts|userns)$/.test(name) && value === "host")
      found.push(`the container shares this machine's ${name.slice(2)}`);
    else if (/^--(?:cap-add|device|security-opt|volumes-from)$/.test(name))
      found.push(`the container gets extra access with ${toOneLine(arg)}`);
  });
  return found;
}

function getMountWarnings(value: string): readonly string[] {
  const source = /(?:^|,)(?:src|source)=([^,]*)/.exec(value)?.[1] ?? value.split(":")[0] ?? "";
  // A name without a slash is a named volume.
  if (!/[/\\~.<]/.test(source)) return [];
  if (/docker\.sock$/.test(source)) return ["the container can control Docker: it can do everything on this machine"];
  const isAll =
    /^(?:[/\\~]|[A-Za-z]:[/\\]?)$/.test(source) || /^\/(?:etc|home|root|usr|var|proc|sys|dev)\/?$/.test(source);
  return [`the container can read ${isAll ? "all of" : "the folder"} ${toOneLine(source)}`];
}

function splitOption(arg: string): readonly [string, string | undefined] {
  const at = arg.indexOf("=");
  return at > 0 && arg.startsWith("--") ? [arg.slice(0, at), arg.slice(at + 1)] : [arg, undefined];
}

/** Well-known packages that attackers imitate. */
const OFFICIAL_SERVERS =
  "everything filesystem github gitlab google-maps memory postgres puppeteer redis sequential-thinking slack brave-search";
const SCOPED_PACKAGES =
  "@playwright/mcp @notionhq/notion-mcp-server @supabase/mcp-server-supabase @upstash/context7-mcp @sentry/mcp-server @stripe/mcp";
const OTHER_PACKAGES =
  "airtable-mcp-server chrome-devtools-mcp firecrawl-mcp mcp-remote tavily-mcp awslabs.aws-documentation-mcp-server mcp-server-fetch mcp-server-git mcp-server-time mcp-server-sqlite mcp-atlassian mcp/filesystem";
const KNOWN_PACKAGES = [
  ...OFFICIAL_SERVERS.split(" ").map((name) => `@modelcontextprotocol/server-${name}`),
  ...SCOPED_PACKAGES.split(" "),
  ...OTHER_PACKAGES.split(" "),
];

/** Warns about a package or owner that differs from a well-known one by a single letter. */
export function getLookalikeWarnings(identifier: string): readonly string[] {
  const name = identifier.toLowerCase();
  if (KNOWN_PACKAGES.includes(name)) return [];
  const near = KNOWN_PACKAGES.find((known) => editDistance(name, known, 1) === 1);
  if (near !== undefined) return [`${toOneLine(identifier)} is similar to, but not, the well-known ${near}`];
  const scope = readScope(name);
  const owners = KNOWN_PACKAGES.flatMap((known) => readScope(known) ?? []);
  if (scope === undefined || owners.includes(scope)) return [];
  const owner = owners.find((one) => editDistance(scope, one, 1) === 1);
  return owner === undefined ? [] : [`${toOneLine(scope)} is similar to, but not, the well-known ${owner}`];
}

const readScope = (name: string): string | undefined => /^(@[^/]{6,})\//.exec(name)?.[1];
