import { messageOf } from "../core/errors.ts";
import type { Runtime } from "../core/runtime.ts";
import type { AnchorStore } from "./anchor-store.ts";

const DAY_MS = 86_400_000;

/** How long a token can be filled. */
const ANCHORS_KEPT_MS = 30 * DAY_MS;

/** Forgets old anchors once a day, whenever it is called. Returns at once and never throws. */
export function createPruning(
  store: Pick<AnchorStore, "prune">,
  now: Runtime["now"],
  onProblem: (problem: string) => void,
): () => void {
  let last = Number.NEGATIVE_INFINITY;
  return () => {
    const at = now().getTime();
    if (at - last < DAY_MS) return;
    last = at;
    void Promise.resolve()
      .then(() => store.prune(new Date(at - ANCHORS_KEPT_MS)))
      .catch((thrown: unknown) => onProblem(`old anchored values could not be forgotten: ${messageOf(thrown)}`));
  };
}
