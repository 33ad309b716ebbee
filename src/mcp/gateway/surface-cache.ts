import type { Quartermaster } from "../../app/quartermaster.ts";
import type { Caller } from "../../core/caller.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Surface, SurfaceTool } from "../../surface/surface.ts";
import type { GatewayProfile } from "./gateway.ts";

/** The surfaces of one profile's clients. */
export interface SurfaceCache {
  /** The surface of a caller's session, with whatever was activated in it. */
  get(caller: Caller): Promise<Surface>;
  /**
   * What a client is shown that has called nothing yet: the same for all, whatever any of them calls, until the catalog
   * or the policy changes.
   */
  listInitialTools(): Promise<readonly SurfaceTool[]>;
  /** What callers may see can have changed. */
  invalidate(): void;
}

interface CachedSurface {
  readonly surface: Promise<Surface>;
  readonly generation: number;
}

/** More than there are sessions; what was activated in one that is not used any more is activated again when called. */
const SURFACES_LIMIT = 512;

export function createSurfaceCache(
  quartermaster: Pick<Quartermaster, "surface">,
  runtime: Runtime,
  profile: GatewayProfile,
): SurfaceCache {
  let generation = 0;
  const surfaces = new Map<string, CachedSurface>();
  let constant: { readonly generation: number; readonly tools: Promise<readonly SurfaceTool[]> } | undefined;

  const open = (caller: Caller) => quartermaster.surface(caller, profile.surface);

  /** A flat surface is a picture of its moment; the others follow the view, and only they know what was activated. */
  async function renewSurface(caller: Caller, before: Promise<Surface> | undefined): Promise<Surface> {
    const fresh = await open(caller);
    const known = await before?.catch(() => undefined);
    return known !== undefined && known.kind === fresh.kind && fresh.kind !== "flat" ? known : fresh;
  }

  return {
    get(caller) {
      const { session } = caller;
      const before = surfaces.get(session);
      const isCurrent = before?.generation === generation;
      const now = isCurrent ? before : { surface: renewSurface(caller, before?.surface), generation };
      // Behind all others, so that what is used stays.
      surfaces.delete(session);
      surfaces.set(session, now);
      const [oldest] = surfaces.keys();
      if (surfaces.size > SURFACES_LIMIT && oldest !== undefined) surfaces.delete(oldest);
      // What could not be opened is tried again.
      if (!isCurrent) {
        now.surface.catch(() => {
          if (surfaces.get(session) === now) surfaces.delete(session);
        });
      }
      return now.surface;
    },
    async listInitialTools() {
      if (constant?.generation !== generation) {
        const opened = open({ actor: profile.actor, session: runtime.newId() }).then(({ tools }) => tools);
        constant = { generation, tools: opened };
        opened.catch(() => {
          constant = undefined;
        });
      }
      return constant.tools;
    },
    invalidate() {
      generation++;
    },
  };
}
