import type { Action } from "../core/action.ts";

/** What a search may look at: of a view, the part it needs. Nothing else may leave a trace in what is found. */
export interface Searchable {
  readonly snapshot: { readonly actions: readonly Action[] };
  sees(action: Action): boolean;
  /** All it may see, sorted by name. */
  actions(): readonly Action[];
}
