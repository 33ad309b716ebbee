import { defineResource } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { yieldToEventLoop } from "../../core/async.ts";
import type { Caller } from "../../core/caller.ts";
import { formatCount } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import type { Json } from "../../core/json.ts";
import { actionName, quoteName } from "../../core/names.ts";
import { isListed, type ResourceAccess } from "../../core/resource-access.ts";
import type { TextChecks } from "../../core/text-checks.ts";
import type { DocumentCall, RagSource, RagStore, StoredDocument } from "./rag-store.ts";

export const OPERATIONS = "rag_operation";
export const CORPUS = "rag_corpus";
export const RECALL = actionName(OPERATIONS, "recall");

/** The rules of the instance that decide who may use what. */
export interface RagRights extends TextChecks {
  mayUse(resource: Action, caller: Caller): ResourceAccess;
  /** Whether the policy would let the caller make this call without approval. */
  mayRead(caller: Caller, call: DocumentCall): boolean;
  /** The actions whose data the running call has. */
  listCallSources(): readonly string[];
  /** Adds actions whose data the running call has read. */
  addCallSources(actions: readonly string[]): void;
  /** The text of a stored value. */
  toText(value: Json): string;
}

/** A source as the action that the policy decides on. Invoking it recalls from this source only. */
export function toCorpus(source: RagSource): Action {
  const { name, description, documents, chunks, indexedAt, owner, madeFrom } = source;
  const facts = `${formatCount(documents, "document")}, ${formatCount(chunks, "chunk")}, indexed ${indexedAt}`;
  const action = defineResource(CORPUS, {
    entry: name,
    // It comes from a model, so it is quoted.
    description: `Recall passages from the source ${name}: ${facts}.${description === "" ? "" : ` ${JSON.stringify(description)}`}`,
    target: RECALL,
    transform: { set: { sources: ["$entry"] } },
    examples: [{ args: { query: "how are backups restored" } }],
  });
  return Object.freeze({ ...action, owner, madeFrom });
}

const DECISIONS_PER_TURN = 100;

export function createSourceAccess({ store, rights }: { readonly store: RagStore; readonly rights: RagRights }) {
  /** A caller's own source comes before one of the tenant with the same name. */
  async function listVisible(caller: Caller): Promise<readonly RagSource[]> {
    const all = await store.list(caller.tenant ?? "");
    const visible = all.filter((source) => isListed(rights.mayUse(toCorpus(source), caller)));
    const byName = new Map<string, RagSource>();
    for (const source of visible.toSorted((a, b) => Number(isPrivate(a)) - Number(isPrivate(b))))
      byName.set(source.name, source);
    return [...byName.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** The documents that the caller could read now, and the others: these must not influence any answer. */
  async function decideOnDocuments(sources: readonly RagSource[], caller: Caller) {
    const readable: StoredDocument[] = [];
    const hidden: StoredDocument[] = [];
    for (const [at, document] of (await store.documents(sources.map(({ id }) => id))).entries()) {
      if (at % DECISIONS_PER_TURN === 0) await yieldToEventLoop();
      (rights.mayRead(caller, document.read) ? readable : hidden).push(document);
    }
    return { readable, hidden };
  }

  /** The visible sources, all or those of one name, with the sizes of what the caller could read. */
  async function listMeasured(caller: Caller, name?: string): Promise<readonly MeasuredSource[]> {
    const measured: MeasuredSource[] = [];
    for (const source of await listVisible(caller)) {
      if (name !== undefined && source.name !== name) continue;
      const { readable, hidden } = await decideOnDocuments([source], caller);
      const add = (size: "chunks" | "characters") => readable.reduce((sum, document) => sum + document[size], 0);
      const sizes = { documents: readable.length, chunks: add("chunks"), characters: add("characters") };
      measured.push({ ...source, ...sizes, isPartial: hidden.length > 0 });
    }
    return measured;
  }

  async function require(names: readonly string[], caller: Caller): Promise<readonly RagSource[]> {
    const visible = await listVisible(caller);
    return [...new Set(names)].map((name) => {
      const source = visible.find((each) => each.name === name);
      if (source !== undefined) return source;
      const known = visible.slice(0, 20).map((each) => each.name);
      const hint = known.length === 0 ? "No source is indexed." : `Indexed sources: ${known.join(", ")}.`;
      throw new QmError("not_found", `there is no source ${quoteName(name)} here`, { hint });
    });
  }

  /** Whether the call may recall from a source that `listVisible` lists: some need approval. */
  const mayRecall = (source: RagSource, { caller, approvalDecision }: CallContext): boolean =>
    approvalDecision !== undefined || rights.mayUse(toCorpus(source), caller) === "allowed";

  return { listVisible, listMeasured, decideOnDocuments, require, mayRecall };
}

export type SourceAccess = ReturnType<typeof createSourceAccess>;

/** `isPartial`: the caller could not read all of its documents. */
export type MeasuredSource = RagSource & { readonly isPartial: boolean };

const isPrivate = ({ owner }: RagSource): boolean => owner.user !== undefined;
