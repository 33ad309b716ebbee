import { yieldToEventLoop } from "../../core/async.ts";
import type { UnstampedEvent } from "../../core/events.ts";
import { fingerprintServer, type ServerSpec } from "../server-spec.ts";
import {
  applyDecision,
  compareOffers,
  type DefinitionDecision,
  evaluateOffer,
  listOfferedDefinitions,
  type ReviewedTool,
  reviewDefinitions,
  selectDefinitions,
} from "./definition-review.ts";
import { buildServerTools, type KnownTool, type ServerTools, type WithheldTool } from "./known-tools.ts";
import type { ManifestRecord, ManifestStore } from "./manifest-store.ts";
import type { OfferedTool, ServerOffer } from "./offer.ts";
import { limitOffer } from "./offer.ts";
import type { ScanFinding } from "./scan/finding.ts";
import { scanDefinition } from "./scan/scan-definition.ts";
import { createOfferedNames } from "./scan/tool-names.ts";

export type ManifestEvent =
  | UnstampedEvent<"definition.accepted">
  | UnstampedEvent<"definition.rejected">
  | UnstampedEvent<"definition.withheld">
  | UnstampedEvent<"server.learned">;

export interface ManifestServiceOptions {
  readonly store: ManifestStore;
  readonly now: () => Date;
  readonly note: (event: ManifestEvent) => void;
  /** Told what of an offer could not be taken. */
  readonly onProblem: (problem: string) => void;
}

/** What an offer was, beside the one before it: names of tools. */
export interface OfferUpdate {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
  /** Every tool of which a definition waits for a person now, whenever that began. */
  readonly withheld: readonly string[];
  /** What of the offer could not be taken. */
  readonly problems: readonly string[];
}

/**
 * What is known of every configured server, and what of it may be used. Reading answers at once, from memory; what is
 * decided is in the store before it is answered. Tools that stay the same stay the same objects.
 */
export interface ManifestService {
  /** The servers there are from now on. What was learned of them under the same fingerprint counts again. */
  use(specs: readonly ServerSpec[]): void;
  /**
   * Takes in what a server offers now, as this process sees it. What is not accepted is withheld. Nothing is written
   * where nothing is new. The server need not be in use.
   */
  learn(spec: ServerSpec, offer: ServerOffer): Promise<OfferUpdate>;
  /** This process is not connected any more: what others learn of the server later counts here, too. */
  markDisconnected(server: string): void;
  /** Undefined: nothing is known of the server as it is configured now. */
  offer(server: string): ServerOffer | undefined;
  /** The tools that may be shown. Empty where nothing is known. */
  tools(server: string): readonly KnownTool[];
  tool(server: string, name: string): KnownTool | undefined;
  /** Definitions that wait for a person. */
  withheld(server: string): readonly WithheldTool[];
  /** Definitions that are offered still, and that a person has rejected. */
  rejected(server: string): readonly WithheldTool[];
  /**
   * Makes a definition that is withheld the accepted one, or with `*` all of them; answers the tools' names. `hash` says
   * which definition was looked at: another one is not accepted. Throws `not_found`, `conflict`.
   */
  accept(server: string, tool: string, by: string, hash?: string): Promise<readonly string[]>;
  /** Notes that a definition may not be used. It can be accepted later, by name. */
  reject(server: string, tool: string, by: string, hash?: string): Promise<readonly string[]>;
  /** Forgets everything of a server: the next offer is its first. */
  forget(server: string): Promise<void>;
  /** Reads what other processes have changed. Cheap where nothing has. */
  refresh(): Promise<void>;
  /** Calls back with the name of a server of which something is different now. */
  onChange(listener: (server: string) => void): () => void;
}

const NO_PINS: ManifestRecord["pins"] = [];

/** Opens the book over what is in the store. No server is in use yet. */
export async function openManifestService({
  store,
  now,
  note,
  onProblem,
}: ManifestServiceOptions): Promise<ManifestService> {
  const records = new Map(await store.all());
  const specs = new Map<string, ServerSpec>();
  // What this process was told itself. It counts before what others were told, as long as this one is connected.
  const liveOffers = new Map<string, { readonly fingerprint: string; readonly offer: ServerOffer }>();
  const known = new Map<string, ServerTools>();
  const signsOf = new WeakMap<OfferedTool, readonly ScanFinding[]>();
  const listeners = new Set<(server: string) => void>();

  function findOffer(server: string): ServerOffer | undefined {
    const spec = specs.get(server);
    if (spec === undefined) return undefined;
    const fingerprint = fingerprintServer(spec);
    const latest = [liveOffers.get(server), records.get(server)?.manifest];
    return latest.find((manifest) => manifest?.fingerprint === fingerprint)?.offer;
  }

  function getTools(server: string): ServerTools | undefined {
    const offer = findOffer(server);
    if (offer === undefined) return undefined;
    const pins = records.get(server)?.pins ?? NO_PINS;
    const pinning = specs.get(server)?.pin !== false;
    const before = known.get(server);
    const { from } = before ?? {};
    if (before !== undefined && from?.offer === offer && from.pins === pins && from.pinning === pinning) return before;
    const made = buildServerTools({ offer, pins, pinning }, createScanner(server, offer), before);
    known.set(server, made);
    return made;
  }

  /** Reads definitions of one server with the names of all the others in mind. */
  function createScanner(server: string, { tools }: ServerOffer): (tool: OfferedTool) => readonly ScanFinding[] {
    let around: ReturnType<typeof createOfferedNames> | undefined;
    const names = (): typeof around & object => {
      const others = [...specs.keys()].flatMap((name) => (name === server ? [] : (findOffer(name)?.tools ?? [])));
      around ??= createOfferedNames(tools.map(getName), others.map(getName));
      return around;
    };
    return (tool) => {
      const signs = signsOf.get(tool) ?? scanDefinition(tool, names());
      signsOf.set(tool, signs);
      return signs;
    };
  }

  function notifyChange(server: string): void {
    for (const listener of [...listeners]) listener(server);
  }

  /** Newer than what is known, or not at all: answers of the store may overtake each other. */
  function acceptRecord(server: string, record: ManifestRecord | undefined): void {
    const { revision = 0 } = records.get(server) ?? {};
    if (record !== undefined && record.revision > revision) records.set(server, record);
  }

  function drop(server: string): void {
    for (const map of [records, liveOffers, known]) map.delete(server);
    notifyChange(server);
  }

  async function decide(decision: DefinitionDecision): Promise<readonly string[]> {
    const { server, state, by } = decision;
    const tools = selectDefinitions(decision, getTools(server) ?? { withheld: [], rejected: [] });
    if (tools.length === 0) return [];
    acceptRecord(server, await store.change(server, (record) => applyDecision(record, decision, tools)));
    for (const { tool, hash } of tools) note({ type: `definition.${state}`, data: { server, tool, hash, by } });
    notifyChange(server);
    return tools.map(({ tool }) => tool);
  }

  return {
    use(next) {
      specs.clear();
      for (const spec of next) specs.set(spec.name, spec);
      for (const server of known.keys()) if (findOffer(server) === undefined) known.delete(server);
    },
    async learn(spec, raw) {
      const { name: server, pin: pinning } = spec;
      const { offer, problems } = limitOffer(raw);
      for (const problem of problems) onProblem(`MCP server ${server}: ${problem}`);
      const fingerprint = fingerprintServer(spec);
      const tools = listOfferedDefinitions(offer.tools);
      const signs = createScanner(server, offer);
      const sighting = { fingerprint, offer, tools, pinning, at: now(), signs };
      const pinned = new Set(records.get(server)?.pins.map(({ hash }) => hash));
      for (const { definition } of tools.filter(({ hash }) => !pinned.has(hash))) {
        // Reading a large offer takes a while: the store must not wait for it, nor everybody else.
        signs(definition);
        await yieldToEventLoop();
      }

      let before = records.get(server);
      let record = before;
      let change = evaluateOffer(before, sighting);
      if (change !== undefined) {
        // The store may know more than this process does: it is judged again there, by what is there then.
        record = await store.change(server, (kept) => {
          before = kept;
          change = evaluateOffer(kept, sighting);
          return change;
        });
        acceptRecord(server, record);
      }
      if (record === undefined) throw new TypeError(`nothing was kept of ${server}`);

      const shown = findOffer(server);
      liveOffers.set(server, { fingerprint, offer: record.manifest.offer });
      const difference = compareOffers(listOfferedDefinitions(before?.manifest.offer.tools ?? []), tools);
      if (change?.manifest !== undefined) {
        const { added, removed, changed } = difference;
        const counts = { added: added.length, removed: removed.length, changed: changed.length };
        note({ type: "server.learned", data: { server, tools: tools.length, ...counts } });
      }
      for (const { state, definition, hash, reasons } of pinning ? (change?.put ?? []) : []) {
        if (state !== "withheld") continue;
        note({ type: "definition.withheld", data: { server, tool: definition.name, hash, reasons: [...reasons] } });
      }
      if (change !== undefined || findOffer(server) !== shown) notifyChange(server);
      const waiting = pinning ? reviewDefinitions(tools, record.pins).filter(isWaiting) : [];
      return { ...difference, withheld: waiting.map(({ name }) => name), problems };
    },
    markDisconnected(server) {
      const shown = findOffer(server);
      liveOffers.delete(server);
      if (findOffer(server) !== shown) notifyChange(server);
    },
    offer: findOffer,
    tools: (server) => getTools(server)?.tools ?? [],
    tool: (server, name) => getTools(server)?.byName.get(name),
    withheld: (server) => getTools(server)?.withheld ?? [],
    rejected: (server) => getTools(server)?.rejected ?? [],
    accept: (server, tool, by, hash) => decide({ server, tool, by, hash, state: "accepted", at: now() }),
    reject: (server, tool, by, hash) => decide({ server, tool, by, hash, state: "rejected", at: now() }),
    async forget(server) {
      await store.forget(server);
      drop(server);
    },
    async refresh() {
      const had = new Map(records);
      const revisions = await store.revisions();
      for (const [server, revision] of revisions) {
        if (records.get(server)?.revision === revision) continue;
        acceptRecord(server, await store.read(server));
        notifyChange(server);
      }
      // Only what was there before: a server may have been learned since the store was asked.
      for (const [server, record] of had) if (!revisions.has(server) && records.get(server) === record) drop(server);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

function isWaiting({ pending }: ReviewedTool): boolean {
  return pending.some(({ state }) => state === "withheld");
}

function getName({ name }: OfferedTool): string {
  return name;
}
