import type { Caller } from "../../core/caller.ts";
import type { Runtime } from "../../core/runtime.ts";
import type { Quartermaster } from "../../quartermaster.ts";
import type { Surface, SurfaceTool } from "../../surface/surface.ts";
import type { GatewayProfile } from "./gateway.ts";

/** The surfaces of one profile's clients. */
export interface SurfaceKeeper {
  /** The surface of a caller's session, with whatever was activated in it. */
  of(caller: Caller): Promise<Surface>;
  /**
   * What a client is shown that has called nothing yet: the same for all, whatever any of them calls, until the catalog
   * or the policy changes.
   */
  constant(): Promise<readonly SurfaceTool[]>;
  /** What callers may see can have changed. */
  changed(): void;
}

interface Kept {
  readonly surface: Promise<Surface>;
  readonly generation: number;
}

/** More than there are sessions; what was activated in one that is not used any more is activated again when called. */
const KEPT_LIMIT = 512;

export function createSurfaceKeeper(
  quartermaster: Pick<Quartermaster, "surface">,
  runtime: Runtime,
  profile: GatewayProfile,
): SurfaceKeeper {
  let generation = 0;
  const kept = new Map<string, Kept>();
  let constant: { readonly generation: number; readonly tools: Promise<readonly SurfaceTool[]> } | undefined;

  const open = (caller: Caller) => quartermaster.surface(caller, profile.surface);

  /** A flat surface is a picture of its moment; the others follow the view, and only they know what was activated. */
  async function renewed(caller: Caller, before: Promise<Surface> | undefined): Promise<Surface> {
    const fresh = await open(caller);
    const known = await before?.catch(() => undefined);
    return known !== undefined && known.kind === fresh.kind && fresh.kind !== "flat" ? known : fresh;
  }

  return {
    of(caller) {
      const { session } = caller;
      const before = kept.get(session);
      const isCurrent = before?.generation === generation;
      const now = isCurrent ? before : { surface: renewed(caller, before?.surface), generation };
      // Behind all others, so that what is used stays.
      kept.delete(session);
      kept.set(session, now);
      const [oldest] = kept.keys();
      if (kept.size > KEPT_LIMIT && oldest !== undefined) kept.delete(oldest);
      // What could not be opened is tried again.
      if (!isCurrent) {
        now.surface.catch(() => {
          if (kept.get(session) === now) kept.delete(session);
        });
      }
      return now.surface;
    },
    async constant() {
      if (constant?.generation !== generation) {
        const opened = open({ actor: profile.actor, session: runtime.newId() }).then(({ tools }) => tools);
        constant = { generation, tools: opened };
        opened.catch(() => {
          constant = undefined;
        });
      }
      return constant.tools;
    },
    changed() {
      generation++;
    },
  };
}
