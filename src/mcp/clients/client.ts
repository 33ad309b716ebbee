import type { Surroundings } from "./surroundings.ts";
import type { VariableForm } from "./variables.ts";

/** Whose file it is: the user's own, or one that came with a project and that others wrote. */
export type Scope = "user" | "project";

export interface ClientFile {
  readonly path: string;
  readonly scope: Scope;
  /** The keys that lead to the servers in it. */
  readonly keys: readonly string[];
  /** What this part of the file is called when there are several. */
  readonly part?: string;
}

/** An object out of somebody's file: nothing about it is known yet. */
export type Raw = Readonly<Record<string, unknown>>;

/** An entry put into the common words, and what is in our own words already. */
export interface Adapted {
  readonly raw: Raw;
  readonly env?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Why it cannot be brought along. */
  readonly unfit?: string;
}

interface OAuthWords {
  readonly key: string;
  readonly clientId: string;
  readonly clientSecret?: string;
  readonly scopes?: string;
  readonly callbackPort?: string;
}

/** What a client calls the parts of an entry. Absent words: it has no such thing. */
export interface Words {
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
  readonly times?: Readonly<
    Record<string, { readonly to: "start_timeout_ms" | "call_timeout_ms"; readonly ms: number }>
  >;
  readonly oauth?: OAuthWords;
  /** Understood, and without a meaning here: not worth a word. */
  readonly silent?: readonly string[];
  /** For what is not a matter of words. */
  readonly adapt?: (raw: Raw) => Adapted;
  /** Whether the rest of the file switches a server off. */
  readonly isOff?: (document: Raw, server: string) => boolean;
}

/** How a client is told of a gateway, in its own words. */
export interface GatewayWords {
  readonly stdio: (command: string, args: readonly string[]) => Raw;
  /** Absent: the client cannot reach a server by its address. */
  readonly http?: (url: string, headers: Readonly<Record<string, string>>) => Raw;
  /** The text that a variable's value is filled into. Absent: the client has no variables. */
  readonly variable?: (name: string) => string;
  /** What it makes of a name, when it takes not every one. */
  readonly nameProblem?: (name: string) => string | undefined;
}

/** A program with a list of MCP servers of its own. Adding one is one file and one line in `clients.ts`. */
export interface Client {
  /** As it is typed. */
  readonly name: string;
  /** As its makers write it. */
  readonly title: string;
  readonly format: "jsonc" | "toml";
  /** Where it looks, the first of a scope being where something new is written. */
  readonly files: (around: Surroundings) => readonly ClientFile[];
  readonly variables: readonly VariableForm[];
  readonly words: Words;
  readonly gateway: GatewayWords;
  /** What makes it see a change. */
  readonly afterwards: string;
}
