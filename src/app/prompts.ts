import { createLoadingResolver } from "../activation/activation.ts";
import type { UsageTracker } from "../activation/usage-tracker.ts";
import type { Action } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import { omitUndefined } from "../core/json.ts";
import type { SurfaceChoice, SurfaceKind } from "../core/surface-choice.ts";
import type { ActorSettings } from "../policy/actors.ts";
import { type Directory, renderDirectory, renderHints } from "../search/directory.ts";
import { getWireNames } from "../surface/native-tools.ts";
import { loadTokenCounter, resolveSurfaceKind } from "../surface/open-surface.ts";
import type { SurfaceBackend } from "../surface/surface.ts";
import {
  buildPromptPrefix,
  createSection,
  joinSections,
  type PromptSection,
  type SystemPrompt,
} from "../surface/system-prompt.ts";
import { readHotList } from "../surface/universal/shortcuts.ts";
import type { Discovery } from "./discovery.ts";
import type { ResolvedOptions } from "./options.ts";

export interface PromptOptions {
  /** The user's message, for hints. Absent: the prompt has none. */
  readonly query?: string;
  /** Instead of the caller's own surface. */
  readonly kind?: SurfaceKind;
  /** Whether to count the tokens of each section. */
  readonly tokens?: boolean;
  /** `false`: only the part that stays the same. */
  readonly dynamic?: boolean;
}

export function createPrompts(parts: {
  readonly settings: ResolvedOptions["search"];
  readonly backend: Pick<SurfaceBackend, "getView" | "live" | "canSearch">;
  readonly discovery: Pick<Discovery, "find" | "isOn">;
  readonly uses: UsageTracker;
  now(): Date;
  actorOf(caller: Caller): { readonly surface: SurfaceChoice; readonly settings: ActorSettings };
  record(caller: Caller, event: UnstampedEvent): void;
}) {
  const { backend, discovery, actorOf, record } = parts;
  const { hints, directory } = parts.settings;

  async function renderHintsFor(query: string, caller: Caller, surface = actorOf(caller).surface): Promise<string> {
    const loadingOf = createLoadingResolver(surface);
    const isFiltered = surface.kind === "deferred" && !hints.includeAlwaysLoaded;
    const accepts = isFiltered ? (action: Action) => loadingOf(action) === "deferred" : undefined;
    const request = { query, limit: hints.topK, type: hints.searchType, accepts };
    const found = await discovery.find(() => backend.getView(caller), omitUndefined(request));
    const { requested, effective } = found;
    const data = { query, requested, effective, actions: found.hits.map(({ action }) => action.name) };
    record(caller, { type: "hints.rendered", data });
    return renderHints(query, found);
  }

  function renderDirectoryFor(caller: Caller): Directory {
    const view = backend.getView(caller);
    const rendered = renderDirectory(view.actions(), directory, view.world);
    record(caller, { type: "directory.rendered", data: { groups: [...rendered.groups], actions: rendered.actions } });
    return rendered;
  }

  const renderEnabledDirectory = (caller: Caller) => (directory.enabled ? renderDirectoryFor(caller).text : "");
  const renderEnabledHints = async (query: string | undefined, caller: Caller, surface?: SurfaceChoice) =>
    hints.enabled && discovery.isOn && query !== undefined ? renderHintsFor(query, caller, surface) : "";

  /** The section that changes most often comes last. */
  async function buildDynamicSections(caller: Caller, choice: SurfaceChoice, query: string | undefined) {
    const sections: readonly PromptSection[] = [
      { title: "Directory", text: renderEnabledDirectory(caller) },
      { title: "Hot list", text: await describeHotList(caller, choice) },
      { title: "Hints", text: await renderEnabledHints(query, caller, choice) },
    ];
    return sections.filter(({ text }) => text !== "");
  }

  async function describeHotList(caller: Caller, choice: SurfaceChoice): Promise<string> {
    if (choice.kind !== "universal") return "";
    const view = backend.getView(caller);
    const names = await readHotList(parts, view, caller, choice);
    if (names.length === 0) return "";
    const tools = names.map(getWireNames(view).toWire).sort().join(", ");
    const advice = "These are shortcuts, not all you can do. If another action may fit better, find it first.";
    return createSection("Most used actions", [`You also have these actions as tools: ${tools}.`, advice]).text;
  }

  return {
    hints: renderHintsFor,
    directory: renderDirectoryFor,
    /** The enabled blocks, the one that changes less first. */
    async blocks(query: string, caller: Caller): Promise<string> {
      const listed = renderEnabledDirectory(caller);
      const hinted = await renderEnabledHints(query, caller);
      return [listed, hinted].filter((block) => block !== "").join("\n\n");
    },
    async prompt(caller: Caller, { query, kind: asked, tokens, dynamic = true }: PromptOptions): Promise<SystemPrompt> {
      const { surface, settings } = actorOf(caller);
      const view = backend.getView(caller);
      const { canSearch } = backend;
      const kind = await resolveSurfaceKind(backend, view, { ...surface, ...omitUndefined({ kind: asked }) });
      const { tier = "strong", instructions } = settings;
      const live = backend.live.categories(caller);
      const { sections: fixed, firstTool } = buildPromptPrefix({ view, live, kind, canSearch, tier, instructions });
      const changing = dynamic ? await buildDynamicSections(caller, { ...surface, kind }, query) : [];
      const sections = [...fixed, ...changing];
      const counted = tokens === true ? await countSections(sections) : sections;
      const texts = { text: joinSections(sections), prefix: joinSections(fixed) };
      return omitUndefined({ ...texts, sections: counted, firstTool });
    },
  };
}

async function countSections(sections: readonly PromptSection[]): Promise<readonly PromptSection[]> {
  const count = await loadTokenCounter();
  return sections.map((section) => ({ ...section, tokens: count(section.text) }));
}
