import { hash } from "node:crypto";
import type { Effect } from "../core/action.ts";
import { quoteShellWord } from "../core/display-text.ts";
import { canonicalJson } from "../core/json.ts";
import type { NormalForm } from "../core/normalize-arguments.ts";
import type { SandboxSettings } from "../core/sandbox.ts";

/** A program that runs here and speaks over its standard streams. Every text may hold references. */
export interface StdioLaunch {
  readonly kind: "stdio";
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** An absolute path. Absent: the folder of the configuration. */
  readonly cwd?: string;
  /** Absent: it runs with our rights. */
  readonly sandbox?: SandboxSettings;
}

export interface OAuthSettings {
  readonly clientId?: string;
  readonly clientSecret?: string;
  readonly clientMetadataUrl?: string;
  readonly scopes?: readonly string[];
  readonly callbackPort?: number;
}

/** A remote server over Streamable HTTP. Every text may hold references. */
export interface HttpLaunch {
  readonly kind: "http";
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly oauth?: OAuthSettings;
}

export type Launch = StdioLaunch | HttpLaunch;
export type ProtocolEra = "legacy" | "modern";

/** Settings for the tools of a server that match. */
export interface ToolOverride {
  readonly match: string;
  readonly enabled: boolean;
  readonly effect?: Effect;
  readonly tags: readonly string[];
  readonly approval?: boolean;
  readonly loading?: "always" | "deferred";
  /** How arguments are normalized. `file`: to an absolute path, from the server's working directory. */
  readonly arguments?: Readonly<Record<string, "file" | Extract<NormalForm, string>>>;
}

/** A configured MCP server. References are filled only when it is started. */
export interface ServerSpec {
  readonly name: string;
  readonly launch: Launch;
  readonly description?: string;
  readonly version?: string;
  readonly source?: string;
  readonly protocol: "auto" | ProtocolEra;
  readonly startTimeoutMs: number;
  readonly callTimeoutMs?: number;
  /** 0: an idle server is never stopped. */
  readonly idleTimeoutMs: number;
  readonly trustAnnotations: boolean;
  readonly pin: boolean;
  readonly tools: readonly ToolOverride[];
}

/** A hash of all that decides which tools it offers. Variables and headers count by name only: no secret is in it. */
export function fingerprintServer(spec: Pick<ServerSpec, "launch" | "version">): string {
  const known = fingerprints.get(spec);
  if (known !== undefined) return known;
  const { launch, version } = spec;
  const identity =
    launch.kind === "stdio"
      ? [launch.command, launch.args, Object.keys(launch.env).sort(), launch.cwd ?? null]
      : [launch.url, Object.keys(launch.headers).sort()];
  const fingerprint = hash("sha256", canonicalJson([launch.kind, identity, version ?? null]), "hex");
  fingerprints.set(spec, fingerprint);
  return fingerprint;
}

// Fingerprints are read often, and a spec never changes.
const fingerprints = new WeakMap<object, string>();

/** The launch as a person would type it: references unfilled, the URL without credentials, query and fragment. */
export function formatLaunch(launch: Launch): string {
  if (launch.kind === "stdio") return [launch.command, ...launch.args].map(quoteShellWord).join(" ");
  return launch.url.replace(/\/\/[^/@]*@/, "//").replace(/[?#].*$/, "");
}

export function findSecretNames(launch: Launch): readonly string[] {
  const texts =
    launch.kind === "stdio"
      ? [launch.command, ...launch.args, ...Object.values(launch.env)]
      : [launch.url, ...Object.values(launch.headers), launch.oauth?.clientId ?? "", launch.oauth?.clientSecret ?? ""];
  return [
    ...new Set(
      texts.flatMap((text) =>
        [...text.matchAll(/(?<!\$)\$\{secret:([A-Za-z_][A-Za-z0-9_]*)\}/g)].map(([, name = ""]) => name),
      ),
    ),
  ];
}
