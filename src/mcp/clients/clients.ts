import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { claudeCodeClient, claudeDesktopClient, codexClient, geminiClient, opencodeClient } from "./agent-clients.ts";
import type { ClientEnvironment } from "./client-paths.ts";
import { clineClient, cursorClient, vscodeClient, windsurfClient, zedClient } from "./editor-clients.ts";
import type { VariableForm } from "./variables.ts";

/** The user's own file, or a project file that other people may have written. */
export type ClientScope = "user" | "project";

export interface ClientFile {
  readonly path: string;
  readonly scope: ClientScope;
  /** The keys that lead to the servers. */
  readonly keys: readonly string[];
  /** A label for this part, if a file has several. */
  readonly part?: string;
}

/** An unchecked object from a client's file. */
export type RawEntry = Readonly<Record<string, unknown>>;

/** An entry in the common keys, with values that are already translated. */
export interface AdaptedEntry {
  readonly raw: RawEntry;
  readonly env?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Why the server cannot be imported. */
  readonly unfit?: string;
}

/** The keys a client uses in an entry. An absent key means that the client has no such setting. */
export interface EntryKeys {
  /** Keys of a Streamable HTTP URL. */
  readonly http: readonly string[];
  /** Keys of an SSE URL, unless `type` says otherwise. */
  readonly sse?: readonly string[];
  /** Default: `env`. */
  readonly env?: string;
  /** Default: `headers`. */
  readonly headers?: string;
  /** True means disabled. */
  readonly off?: string;
  /** False means disabled. */
  readonly on?: string;
  readonly onlyTools?: string;
  readonly withoutTools?: string;
  readonly timeouts?: { readonly [key: string]: { to: "start_timeout_ms" | "call_timeout_ms"; ms: number } };
  readonly oauth?: { key: string; clientId: string; clientSecret?: string; scopes?: string; callbackPort?: string };
  /** Known keys that need no note. */
  readonly ignored?: readonly string[];
  /** Converts an entry whose structure differs. */
  readonly adapt?: (raw: RawEntry) => AdaptedEntry;
  /** Whether another part of the file disables a server. */
  readonly isOff?: (document: RawEntry, server: string) => boolean;
}

/** A program with its own list of MCP servers. To add one, define it and list it in `clients`. */
export interface ClientDefinition {
  readonly name: string;
  readonly title: string;
  readonly format: "jsonc" | "toml";
  /** The files in reading order. A new entry goes into the first file of a scope. */
  readonly files: (around: ClientEnvironment) => readonly ClientFile[];
  readonly variables: readonly VariableForm[];
  readonly entryKeys: EntryKeys;
  /** How to write a gateway entry for this client. */
  readonly gateway: {
    readonly stdio: (command: string, args: readonly string[]) => RawEntry;
    /** Absent if the client does not support remote servers. */
    readonly http?: (url: string, headers: Readonly<Record<string, string>>) => RawEntry;
    /** A reference to an environment variable. Absent if the client has none. */
    readonly variable?: (name: string) => string;
    /** Why the client rejects a server name. */
    readonly nameProblem?: (name: string) => string | undefined;
  };
  readonly restartHint: string;
}

/** In reading order: the first of several equal servers keeps its name. */
export const clients: readonly ClientDefinition[] = [
  claudeCodeClient,
  claudeDesktopClient,
  clineClient,
  codexClient,
  cursorClient,
  geminiClient,
  opencodeClient,
  vscodeClient,
  windsurfClient,
  zedClient,
];

/** Throws `invalid_arguments` with the known names. */
export function getClientDefinition(name: string): ClientDefinition {
  const found = clients.find((client) => client.name === name);
  if (found !== undefined) return found;
  const details = { valid: clients.map((client) => client.name) };
  throw new QmError("invalid_arguments", `${quoteName(name)} is not a known client`, { details });
}
