import { yieldToEventLoop } from "../../core/async.ts";
import type { UnstampedEvent } from "../../core/events.ts";
import { fingerprintServer, type ServerSpec } from "../server-spec.ts";
import {
  applyDecision,
  compareOffers,
  type DefinitionDecision,
  evaluateOffer,
  isUnapproved,
  listOfferedDefinitions,
  reviewDefinitions,
  selectDefinitions,
} from "./definition-review.ts";
import { buildServerTools, type KnownTool, type ServerTools, type WithheldTool } from "./known-tools.ts";
import type { ManifestRecord, ManifestStore } from "./manifest-store.ts";
import { limitOffer, type OfferedTool, type ServerOffer } from "./offer.ts";
import type { ScanFinding } from "./scan/finding.ts";
import { scanDefinition } from "./scan/scan-definition.ts";
import { createOfferedNames, type OfferedNames } from "./scan/tool-names.ts";

export type ManifestEvent = UnstampedEvent<
  "definition.accepted" | "definition.rejected" | "definition.withheld" | "server.learned"
>;

export interface ManifestServiceOptions {
  readonly store: ManifestStore;
  readonly now: () => Date;
  readonly note: (event: ManifestEvent) => void;
  readonly onProblem: (problem: string) => void;
}

/** The names of the tools that changed since the previous offer. */
export interface OfferUpdate {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  readonly changed: readonly string[];
  /** All tools with a definition that waits for a person, not only new ones. */
  readonly withheld: readonly string[];
  readonly problems: readonly string[];
}

export type ManifestService = Awaited<ReturnType<typeof openManifestService>>;

const NO_PINS: ManifestRecord["pins"] = [];

/**
 * Loads the stored offers of servers and the decisions about their definitions. Reads answer from memory; a decision is
 * stored before it is answered. Tools that did not change stay the same objects.
 */
export async function openManifestService({ store, now, note, onProblem }: ManifestServiceOptions) {
  const records = new Map(await store.all());
  const specs = new Map<string, ServerSpec>();
  // While this process is connected, its own listing takes precedence over the stored one.
  const liveOffers = new Map<string, { readonly fingerprint: string; readonly offer: ServerOffer }>();
  const known = new Map<string, ServerTools>();
  const findings = new WeakMap<OfferedTool, readonly ScanFinding[]>();
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

  /** Scans definitions of one server, knowing the tool names of all servers. */
  function createScanner(server: string, { tools }: ServerOffer): (tool: OfferedTool) => readonly ScanFinding[] {
    let names: OfferedNames | undefined;
    const collectNames = (): OfferedNames => {
      const others = [...specs.keys()].flatMap((name) => (name === server ? [] : (findOffer(name)?.tools ?? [])));
      return createOfferedNames(tools.map(getName), others.map(getName));
    };
    return (tool) => {
      const known = findings.get(tool);
      if (known !== undefined) return known;
      names ??= collectNames();
      const found = scanDefinition(tool, names);
      findings.set(tool, found);
      return found;
    };
  }

  function notifyChange(server: string): void {
    for (const listener of [...listeners]) listener(server);
  }

  /** Ignores older records: responses of the store may arrive out of order. */
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
    const { withheld = [], rejected = [], unapproved = [] } = getTools(server) ?? {};
    // An unapproved skill is accepted by its name only, as a rejected definition is.
    const tools = selectDefinitions(decision, { withheld, rejected: [...rejected, ...unapproved] });
    if (tools.length === 0) return [];
    acceptRecord(server, await store.change(server, (record) => applyDecision(record, decision, tools)));
    for (const { tool, hash } of tools) note({ type: `definition.${state}`, data: { server, tool, hash, by } });
    notifyChange(server);
    return tools.map(({ tool }) => tool);
  }

  return {
    /** Sets the configured servers. Stored offers of the same fingerprint are used again. */
    use(next: readonly ServerSpec[]): void {
      specs.clear();
      for (const spec of next) specs.set(spec.name, spec);
      for (const server of known.keys()) if (findOffer(server) === undefined) known.delete(server);
    },
    /** Stores the current offer of a server and withholds definitions that are not accepted. It need not be in use. */
    async learn(spec: ServerSpec, raw: ServerOffer): Promise<OfferUpdate> {
      const { name: server, pin: pinning } = spec;
      const { offer, problems } = limitOffer(raw);
      for (const problem of problems) onProblem(`MCP server ${server}: ${problem}`);
      const fingerprint = fingerprintServer(spec);
      const tools = listOfferedDefinitions(offer.tools);
      const scan = createScanner(server, offer);
      const observation = { fingerprint, offer, tools, pinning, at: now(), scan };
      const pinned = new Set(records.get(server)?.pins.map(({ hash }) => hash));
      for (const { definition } of tools.filter(({ hash }) => !pinned.has(hash))) {
        // Scan a large offer in slices, before the store's transaction, so that nothing waits for it.
        scan(definition);
        await yieldToEventLoop();
      }

      let before = records.get(server);
      let record = before;
      let change = evaluateOffer(before, observation);
      if (change !== undefined) {
        // Evaluate it again inside the transaction: another process may have changed the record.
        record = await store.change(server, (stored) => {
          before = stored;
          change = evaluateOffer(stored, observation);
          return change;
        });
        acceptRecord(server, record);
      }
      if (record === undefined) throw new TypeError(`no record of ${server} was stored`);

      const previous = findOffer(server);
      liveOffers.set(server, { fingerprint, offer: record.manifest.offer });
      const difference = compareOffers(listOfferedDefinitions(before?.manifest.offer.tools ?? []), tools);
      if (change?.manifest !== undefined) {
        const { added, removed, changed } = difference;
        const counts = { added: added.length, removed: removed.length, changed: changed.length };
        note({ type: "server.learned", data: { server, tools: tools.length, ...counts } });
      }
      for (const { state, definition, hash, reasons } of pinning ? (change?.put ?? []) : []) {
        if (state !== "withheld" || isUnapproved(reasons)) continue;
        note({ type: "definition.withheld", data: { server, tool: definition.name, hash, reasons: [...reasons] } });
      }
      if (change !== undefined || findOffer(server) !== previous) notifyChange(server);
      const waiting = (pinning ? reviewDefinitions(tools, record.pins) : []).filter(({ pending }) =>
        pending.some(({ state }) => state === "withheld"),
      );
      return { ...difference, withheld: waiting.map(({ name }) => name), problems };
    },
    getContent: store.getContent,
    addContents: store.addContents,
    /** From now on, offers that other processes store are used for this server. */
    markDisconnected(server: string): void {
      const previous = findOffer(server);
      liveOffers.delete(server);
      if (findOffer(server) !== previous) notifyChange(server);
    },
    /** Undefined if nothing is known about the server as it is configured now. */
    offer: findOffer,
    tools: (server: string): readonly KnownTool[] => getTools(server)?.tools ?? [],
    tool: (server: string, name: string): KnownTool | undefined => getTools(server)?.byName.get(name),
    withheld: (server: string): readonly WithheldTool[] => getTools(server)?.withheld ?? [],
    /** Rejected definitions that the server still offers. */
    rejected: (server: string): readonly WithheldTool[] => getTools(server)?.rejected ?? [],
    /** Accepts a definition, or all with `*`. `hash`: the one that the person saw. Throws `not_found`, `conflict`. */
    accept: (server: string, tool: string, by: string, hash?: string) =>
      decide({ server, tool, by, hash, state: "accepted", at: now() }),
    /** Rejects a definition. It can be accepted later, by name. */
    reject: (server: string, tool: string, by: string, hash?: string) =>
      decide({ server, tool, by, hash, state: "rejected", at: now() }),
    /** Deletes everything about a server: its next offer counts as the first. */
    async forget(server: string): Promise<void> {
      await store.forget(server);
      drop(server);
    },
    /** Reads the changes of other processes. Cheap if there are none. */
    async refresh(): Promise<void> {
      const had = new Map(records);
      const revisions = await store.revisions();
      for (const [server, revision] of revisions) {
        if (records.get(server)?.revision === revision) continue;
        acceptRecord(server, await store.read(server));
        notifyChange(server);
      }
      // Only old records: a server may have been stored since the revisions were read.
      for (const [server, record] of had) if (!revisions.has(server) && records.get(server) === record) drop(server);
    },
    onChange(listener: (server: string) => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

const getName = ({ name }: OfferedTool): string => name;
