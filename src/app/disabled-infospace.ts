import { QmError } from "../core/errors.ts";
import type { Notes } from "../infospace/notes.ts";
import { noLineage } from "../infospace/provenance.ts";
import type { InfospaceService } from "./infospace-service.ts";

/** Cuts long results and leaves handles in arguments as they are. Loads the infospace when `notes` is used. */
export function createDisabledInfospace(load: () => Promise<InfospaceService>): InfospaceService {
  let loading: Promise<InfospaceService> | undefined;
  const loadNotes = async (): Promise<Notes> => {
    loading ??= load();
    return (await loading).notes;
  };
  return {
    providers: [],
    live: { find: () => undefined, list: async () => [], categories: () => [] },
    handles: { fill: async (_caller, args) => ({ args, from: [] }) },
    keeper: {
      store: async () => undefined,
      async storeStream(streamed) {
        await streamed.discard();
        const hint = "An operator can set infospace.enabled: true.";
        throw new QmError("invalid_output", "the action streams its result, and storing results is disabled", { hint });
      },
    },
    lineage: noLineage,
    notes: createLazyNotes(loadNotes),
    start() {},
    close: async () => (await loading)?.close(),
  };
}

const STREAMING: ReadonlySet<PropertyKey> = new Set(["items", "export"] satisfies (keyof Notes)[]);

function createLazyNotes(load: () => Promise<Notes>): Notes {
  type Method = (...args: unknown[]) => unknown;
  const getMethod = async (name: PropertyKey) => (await load())[name as keyof Notes] as Method;
  return new Proxy({} as Notes, {
    get: (_target, name) => {
      // A promise that resolves with the notes asks for `then`.
      if (typeof name === "symbol" || name === "then") return undefined;
      if (!STREAMING.has(name)) return async (...args: unknown[]) => (await getMethod(name))(...args);
      return async function* (...args: unknown[]) {
        yield* (await getMethod(name))(...args) as AsyncIterable<unknown>;
      };
    },
  });
}
