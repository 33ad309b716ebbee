import { QmError } from "../../core/errors.ts";
import { quoteName } from "../../core/names.ts";
import { claudeCodeClient, claudeDesktopClient, codexClient, geminiClient, opencodeClient } from "./agent-clients.ts";
import type { ClientEnvironment } from "./client-paths.ts";
import { clineClient, cursorClient, vscodeClient, windsurfClient, zedClient } from "./editor-clients.ts";
import type { VariableForm } from "./variables.ts";

/** Whose file it is: the user's own, or one that came with a project and that others wrote. */
export type ClientScope = "user" | "project";

export interface ClientFile {
  readonly path: string;
  readonly scope: ClientScope;
  /** The keys that lead to the servers in it. */
  readonly keys: readonly string[];
  /** What this part of the file is called when there are several. */
  readonly part?: string;
}

/** An object out of somebody's file: nothing about it is known yet. */
export type RawEntry = Readonly<Record<string, unknown>>;

/** An entry put into the common words, and what is in our own words already. */
export interface AdaptedEntry {
  readonly raw: RawEntry;
  readonly env?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Why it cannot be brought along. */
  readonly unfit?: string;
}

interface OAuthKeys {
  readonly key: string;
  readonly clientId: string;
  readonly clientSecret?: string;
  readonly scopes?: string;
  readonly callbackPort?: string;
}

/** What a client calls the parts of an entry. Absent words: it has no such thing. */
export interface EntryKeys {
  /** Hold a Streamable HTTP address. */
  readonly http: readonly string[];
  /** Hold an address of the older SSE transport, unless `type` says otherwise. */
  readonly sse?: readonly string[];
  /** Absent: `env`. */
  readonly env?: string;
  /** Absent: `headers`. */
  readonly headers?: string;
  /** True: the entry is switched off. */
  readonly off?: string;
  /** False: the entry is switched off. */
  readonly on?: string;
  readonly onlyTools?: string;
  readonly withoutTools?: string;
  readonly timeouts?: Readonly<
    Record<string, { readonly to: "start_timeout_ms" | "call_timeout_ms"; readonly ms: number }>
  >;
  readonly oauth?: OAuthKeys;
  /** Understood, and without a meaning here: not worth a word. */
  readonly ignored?: readonly string[];
  /** For what is not a matter of words. */
  readonly adapt?: (raw: RawEntry) => AdaptedEntry;
  /** Whether the rest of the file switches a server off. */
  readonly isOff?: (document: RawEntry, server: string) => boolean;
}

/** How a client is told of a gateway, in its own words. */
interface GatewayEntryFormat {
  readonly stdio: (command: string, args: readonly string[]) => RawEntry;
  /** Absent: the client cannot reach a server by its address. */
  readonly http?: (url: string, headers: Readonly<Record<string, string>>) => RawEntry;
  /** The text that a variable's value is filled into. Absent: the client has no variables. */
  readonly variable?: (name: string) => string;
  /** What it makes of a name, when it takes not every one. */
  readonly nameProblem?: (name: string) => string | undefined;
}

/** A program with a list of MCP servers of its own. Adding one is one file and one line in `clients.ts`. */
export interface ClientDefinition {
  /** As it is typed. */
  readonly name: string;
  /** As its makers write it. */
  readonly title: string;
  readonly format: "jsonc" | "toml";
  /** Where it looks, the first of a scope being where something new is written. */
  readonly files: (around: ClientEnvironment) => readonly ClientFile[];
  readonly variables: readonly VariableForm[];
  readonly entryKeys: EntryKeys;
  readonly gateway: GatewayEntryFormat;
  /** What makes it see a change. */
  readonly restartHint: string;
}

/** In the order in which they are read: of servers that are the same, the first one's words are kept. */
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

/** Throws `invalid_arguments`, with the names there are. */
export function getClientDefinition(name: string): ClientDefinition {
  const found = clients.find((client) => client.name === name);
  if (found !== undefined) return found;
  throw new QmError("invalid_arguments", `${quoteName(name)} is no client that is known here`, {
    details: { valid: clients.map((client) => client.name) },
  });
}
