import type { Approvals } from "../approval/approval.ts";
import type { Turns } from "../approval/turn-service.ts";
import type { Catalog } from "../catalog/catalog.ts";
import type { ToolRegistry } from "../catalog/tool-registry.ts";
import type { Action } from "../core/action.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { ActionName } from "../core/names.ts";
import type { Outcome } from "../core/outcome.ts";
import type { SurfaceKind } from "../core/surface-choice.ts";
import type { Anchors } from "../distribution/anchors.ts";
import type { Notes } from "../infospace/notes.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { Explanation } from "../policy/explain.ts";
import { compilePolicy, type PolicyOptions } from "../policy/policy.ts";
import type { Replay } from "../replay/replay.ts";
import type { Router } from "../routing/router.ts";
import type { Directory } from "../search/directory.ts";
import { openSqliteStore } from "../store/open-store.ts";
import type { Surface } from "../surface/surface.ts";
import type { ActionDescription, ActionList, ListQuery } from "../surface/universal/browse-actions.ts";
import type { ActionSearch, FoundActions } from "../surface/universal/search-actions.ts";
import type { Embeddings } from "./discovery.ts";
import {
  type CallerOptions,
  type InvokeOptions,
  type QuartermasterOptions,
  checkOptions,
} from "./options.ts";
import { systemRuntime } from "./system-runtime.ts";
import { wireQuartermaster } from "./wiring.ts";

/** One action as an operator is shown it. */
export interface InventoryItem extends Pick<Action, "name" | "category" | "effect" | "tags" | "scope"> {
  readonly summary: string;
}

/** The counter: register actions, ask what a caller may use, and run it. */
export interface Quartermaster {
  readonly register: ToolRegistry["register"];
  readonly unregister: ToolRegistry["unregister"];
  /** Runs an action through the one door. Never rejects. */
  invoke(name: string, args?: unknown, options?: InvokeOptions): Promise<Outcome>;
  /** Throws `unknown_category`, with the valid ones. */
  list(query?: ListQuery, caller?: CallerOptions): ActionList;
  /** Throws `unknown_action`, with suggestions. */
  describe(name: string, caller?: CallerOptions): ActionDescription;
  /** Finds actions by what they do, best first. Rejects with `search_off` or `unknown_category`. */
  search(query: ActionSearch, caller?: CallerOptions, signal?: AbortSignal): Promise<FoundActions>;
  /** A block for a prompt: the actions that may fit what is asked now. Empty when none does. */
  hints(query: string, caller?: CallerOptions): Promise<string>;
  /** A block for a prompt: what a caller may use, in groups. */
  directory(caller?: CallerOptions): Directory;
  /** The blocks that are switched on in the options, for behind the constant part of a prompt. Empty when none is. */
  promptAids(query: string, caller?: CallerOptions): Promise<string>;
  /** The vectors behind search by meaning. */
  readonly embeddings: Embeddings;
  /** Which layer of the policy says what about a name. For operators: it tells of hidden actions. */
  explain(name: string, caller?: CallerOptions): Explanation;
  /** The names of everything a caller may use, sorted. */
  names(caller?: CallerOptions): readonly ActionName[];
  /** Every action there is, whoever may see it, sorted by name. For operators. */
  inventory(): readonly InventoryItem[];
  /** The categories with something in them for a caller, sorted. */
  categories(caller?: CallerOptions): readonly string[];
  /** The tools to show a caller's model. Rejects with `invalid_config` when its actor lists what does not exist. */
  surface(caller?: CallerOptions, kind?: SurfaceKind): Promise<Surface>;
  /** Calls that wait for a person. */
  readonly approvals: Approvals;
  /** Turns that wait for people, to be gone on with in whatever process. */
  readonly turns: Turns;
  /** What was decided then, decided again now, with the recorded results and nothing run. */
  readonly replay: Replay["replay"];
  /** A surface whose calls are answered from a script, for trying an agent out. */
  readonly rehearse: Replay["rehearse"];
  /** What is kept: notes and collections, for hosts and operators. */
  readonly notes: Notes;
  /** Events for others: who takes them, who hears of calls, which calls are under way. */
  readonly router: Omit<Router, "dispatch" | "close">;
  /** Puts values that a model was not shown in place of the tokens it was shown. */
  readonly anchors: Anchors;
  readonly catalog: Pick<Catalog, "provide" | "withdraw" | "settled">;
  readonly ledger: Pick<Ledger, "read" | "verify" | "heads" | "flush">;
  /** Writes down that a configuration file was taken over and what it loosened, or with a reason that it was not. */
  recordConfig(path: string, rejected?: string, loosened?: readonly string[]): void;
  /** Remembers policy and catalog as they are now. The returned function tells which decisions are less strict since then. */
  watchDecisions(): () => Promise<readonly string[]>;
  /** Writes down what happened beside calls: to a server, to a client. For hosts; it is nobody's call. */
  note(event: UnstampedEvent, caller?: CallerOptions): void;
  /** Calls back when what callers may see can have changed, until the returned function is called. */
  onChange(listener: () => void): () => void;
  readonly policyVersion: string;
  /** What actors list and is not there, or is another's; such an actor does not start. */
  actorProblems(): readonly string[];
  /** What is written in the policy and has no effect, because no action is called that. */
  policyWarnings(): readonly string[];
  /** Puts another policy in force, for the next decision on. Throws and changes nothing when it is wrong. */
  usePolicy(policy: PolicyOptions): void;
  /** Aborts what runs, writes what is left, closes providers and store. */
  close(): Promise<void>;
}

/** Wires everything together. Resolves when every provider has answered or failed, or after ten seconds without them. */
export async function createQuartermaster(options: QuartermasterOptions = {}): Promise<Quartermaster> {
  checkOptions(quartermasterShape, "options", options);
  const { runtime = systemRuntime } = options;
  const policy = compilePolicy(options.policy);
  const store = await openSqliteStore(options.store ?? ":memory:", { now: runtime.now });
  try {
    return await wireQuartermaster(options, runtime, policy, store);
  } catch (thrown) {
    await store.close();
    throw thrown;
  }
}
