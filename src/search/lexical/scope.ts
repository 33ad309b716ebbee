import type { Searchable } from "../searchable.ts";
import { fields } from "./fields.ts";
import { LENGTH_LIMIT, type Postings } from "./postings.ts";
import { fieldWeights } from "./weights.ts";

/**
 * What a view lets a search know of an index: whom to leave out, how many there are, how long their texts are.
 * Everything that is counted is counted over this, so that what is hidden leaves no trace.
 */
export interface Scope {
  /** 1 for an action that may be seen; absent when all may. */
  readonly visible?: Uint8Array;
  readonly count: number;
  /** What one word in a field counts, by field × (LENGTH_LIMIT + 1) + the field's length. */
  readonly norms: Float64Array;
  /** How many in scope hold a term, as far as it was counted. */
  readonly counted: Map<number, number>;
}

export function scopeOf(postings: Postings, view: Searchable): Scope {
  const visible = maskOf(postings, view);
  const count = visible === undefined ? postings.actions.length : visible.reduce((sum, each) => sum + each, 0);
  const norms = normsOf(postings, visible);
  return { ...(visible === undefined ? {} : { visible }), count, norms, counted: new Map() };
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
  for (const [field, name] of fields.entries()) {
    const { weight, length: held } = fieldWeights[name];
    let words = 0;
    let having = 0;
    for (let action = 0; action < actions.length; action++) {
      if (visible !== undefined && visible[action] === 0) continue;
      const length = lengths[action * fields.length + field] ?? 0;
      words += length;
      if (length > 0) having++;
    }
    // Over those that have such a text: few have labels, and theirs are not long for that.
    const average = words / Math.max(1, having);
    for (let length = 1; length <= LENGTH_LIMIT && having > 0; length++) {
      norms[field * (LENGTH_LIMIT + 1) + length] = weight / (1 - held + (held * length) / average);
    }
  }
  return norms;
}
