import { hash } from "node:crypto";
import type { Effect } from "../core/action.ts";
import { quoteShellWord } from "../core/display-text.ts";
import { canonicalJson } from "../core/json.ts";
import type { NormalForm } from "../core/normalize-arguments.ts";

/** A program that is started and spoken to over its standard streams. Every text may hold references. */
export interface StdioLaunch {
  readonly kind: "stdio";
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Absolute. Absent: the folder of the configuration. */
  readonly cwd?: string;
}

export interface OAuthSettings {
  readonly clientId?: string;
  readonly clientSecret?: string;
  readonly clientMetadataUrl?: string;
  readonly scopes?: readonly string[];
  readonly callbackPort?: number;
}

/** A server elsewhere, over Streamable HTTP. Every text may hold references. */
export interface HttpLaunch {
  readonly kind: "http";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly oauth?: OAuthSettings;
}

export type Launch = StdioLaunch | HttpLaunch;

export type ProtocolEra = "legacy" | "modern";

/** What is different for some of a server's tools. */
export interface ToolOverride {
  /** A tool's name, or a glob. */
  readonly match: string;
  readonly enabled: boolean;
  readonly effect?: Effect;
  readonly tags: readonly string[];
  readonly approval?: boolean;
  readonly loading?: "always" | "deferred";
  /** Arguments that have one spelling. `file`: an absolute path on the machine of the server, from its working directory. */
  readonly arguments?: Readonly<Record<string, "file" | Extract<NormalForm, string>>>;
}

/** One MCP server as it is configured: references are filled when it is reached, and not before. */
export interface ServerSpec {
  readonly name: string;
  readonly launch: Launch;
  readonly description?: string;
  readonly version?: string;
  readonly source?: string;
  readonly protocol: "auto" | ProtocolEra;
  readonly startTimeoutMs: number;
  readonly callTimeoutMs?: number;
  /** 0: it is never stopped for want of calls. */
  readonly idleTimeoutMs: number;
  readonly trustAnnotations: boolean;
  readonly pin: boolean;
  readonly tools: readonly ToolOverride[];
}

/**
 * What a manifest is kept under: everything that decides which tools there are, and no value of a secret. Of variables
 * and headers only the names count.
 */
export function fingerprintServer(spec: Pick<ServerSpec, "launch" | "version">): string {
  const known = fingerprints.get(spec) ?? hashSpec(spec);
  fingerprints.set(spec, known);
  return known;
}

// It is asked for with every look at a server, and a spec never changes.
const fingerprints = new WeakMap<object, string>();

function hashSpec({ launch, version }: Pick<ServerSpec, "launch" | "version">): string {
  const identity =
    launch.kind === "stdio"
      ? [launch.command, launch.args, Object.keys(launch.env).sort(), launch.cwd ?? null]
      : [launch.url, Object.keys(launch.headers).sort()];
  return hash("sha256", canonicalJson([launch.kind, identity, version ?? null]), "hex");
}

/** How a server is reached, as a person would type it: with its references, and without what a URL says beside its place. */
export function formatLaunch(launch: Launch): string {
  if (launch.kind === "stdio") return [launch.command, ...launch.args].map(quoteShellWord).join(" ");
  return launch.url.replace(/\/\/[^/@]*@/, "//").replace(/[?#].*$/, "");
}

const SECRET = /(?<!\$)\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}/g;

/** The stored secrets that reaching a server takes. */
export function findSecretNames(launch: Launch): readonly string[] {
  const texts =
    launch.kind === "stdio"
      ? [launch.command, ...launch.args, ...Object.values(launch.env)]
      : [launch.url, ...Object.values(launch.headers), launch.oauth?.clientId ?? "", launch.oauth?.clientSecret ?? ""];
  return [...new Set(texts.flatMap((text) => [...text.matchAll(SECRET)].map(([, name = ""]) => name)))];
}
