import type { Searchable } from "../searchable.ts";
import { fields } from "./fields.ts";
import { LENGTH_LIMIT, type Postings } from "./postings.ts";
import { fieldB, fieldWeight } from "./weights.ts";

/**
 * What a view lets a search know of an index: whom to leave out, how many there are and how long their texts are.
 * Everything that is counted is counted over this, so that what is hidden leaves no trace.
 */
export interface Scope {
  /** 1 for an action that may be seen; absent when all may. */
  readonly visible?: Uint8Array;
  readonly count: number;
  /** What one word in a field counts, by field × (LENGTH_LIMIT + 1) + the field's length. */
  readonly norms: Float64Array;
}

export function scopeOf(postings: Postings, view: Searchable): Scope {
  const visible = maskOf(postings, view);
  const count = visible === undefined ? postings.actions.length : visible.reduce((sum, each) => sum + each, 0);
  return { ...(visible === undefined ? {} : { visible }), count, norms: normsOf(postings, visible) };
}

function maskOf({ actions }: Postings, view: Searchable): Uint8Array | undefined {
  const seen = view.actions();
  if (view.snapshot.actions === actions && seen.length === actions.length) return undefined;
  const all = new Set(seen);
  const mask = Uint8Array.from(actions, (action) => (all.has(action) ? 1 : 0));
  return mask.includes(0) ? mask : undefined;
}

/** A long text holds a word more easily: its words count less, the more so the longer it is beside the average. */
function normsOf({ actions, lengths }: Postings, visible: Uint8Array | undefined): Float64Array {
  const norms = new Float64Array(fields.length * (LENGTH_LIMIT + 1));
  const words = new Float64Array(fields.length);
  const having = new Float64Array(fields.length);
  for (let action = 0; action < actions.length; action++) {
    if (visible !== undefined && visible[action] === 0) continue;
    for (let field = 0; field < fields.length; field++) {
      const length = lengths[action * fields.length + field] ?? 0;
      if (length === 0) continue;
      words[field] = (words[field] ?? 0) + length;
      having[field] = (having[field] ?? 0) + 1;
    }
  }
  for (let field = 0; field < fields.length; field++) {
    const average = (words[field] ?? 0) / Math.max(1, having[field] ?? 0);
    for (let length = 1; length <= LENGTH_LIMIT; length++) {
      const b = fieldB(field);
      norms[field * (LENGTH_LIMIT + 1) + length] = fieldWeight(field) / (1 - b + (b * length) / average);
    }
  }
  return norms;
}
