import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Caller } from "../../core/caller.ts";
import { LruMap } from "../../core/lru-map.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Surface, SurfaceTool } from "../../surface/surface.ts";
import type { GatewayProfile } from "./gateway.ts";

export type SurfaceCache = ReturnType<typeof createSurfaceCache>;

/** More than there are sessions. In a session that was dropped, actions are activated again when they are called. */
const SURFACES_LIMIT = 512;

/** The surfaces of one profile's clients. */
export function createSurfaceCache(
  quartermaster: Pick<Quartermaster, "surface">,
  runtime: Runtime,
  profile: GatewayProfile,
) {
  let generation = 0;
  const surfaces = new LruMap<string, { readonly surface: Promise<Surface>; readonly generation: number }>(
    SURFACES_LIMIT,
  );
  let initial: { readonly generation: number; readonly tools: Promise<readonly SurfaceTool[]> } | undefined;

  const open = (caller: Caller) => quartermaster.surface(caller, profile.surface);

  /** A flat surface does not change after it was opened. The others do, and only they know what was activated. */
  async function renew(caller: Caller, before: Promise<Surface> | undefined): Promise<Surface> {
    const fresh = await open(caller);
    const known = await before?.catch(() => undefined);
    return known !== undefined && known.kind === fresh.kind && fresh.kind !== "flat" ? known : fresh;
  }

  return {
    /** Grows when the catalog or the policy changes. */
    get generation(): number {
      return generation;
    },
    /** The surface of the caller's session, with the actions that were activated in it. */
    get(caller: Caller): Promise<Surface> {
      const { session } = caller;
      const before = surfaces.get(session);
      if (before?.generation === generation) return before.surface;
      const entry = { surface: renew(caller, before?.surface), generation };
      surfaces.set(session, entry);
      // A surface that could not be opened is tried again.
      entry.surface.catch(() => {
        if (surfaces.get(session) === entry) surfaces.delete(session);
      });
      return entry.surface;
    },
    /** The tools of a client that has called nothing yet. They change only with the catalog or the policy. */
    async listInitialTools(): Promise<readonly SurfaceTool[]> {
      if (initial?.generation !== generation) {
        const tools = open({ actor: profile.actor, session: runtime.newId() }).then((surface) => surface.tools);
        initial = { generation, tools };
        tools.catch(() => {
          initial = undefined;
        });
      }
      return initial.tools;
    },
    /** To be called when the catalog or the policy has changed. */
    invalidate(): void {
      generation++;
    },
  };
}
