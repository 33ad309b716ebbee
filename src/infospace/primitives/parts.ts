import type { Action } from "../../core/action.ts";
import type { Infospace } from "../infospace.ts";
import type { NoteSearch } from "../search/note-search.ts";

/** What primitives work with. */
export interface PrimitiveParts {
  readonly infospace: Infospace;
  readonly search: NoteSearch;
  /** How many characters of what it made a primitive shows. */
  readonly previewLimit: number;
  /** How many characters of an answer a model is shown: what says how far it goes must be no longer. */
  readonly valueLimit: number;
}

/** Several primitives of a kind. */
export type Primitives = (parts: PrimitiveParts) => readonly Action[];
