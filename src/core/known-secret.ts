import type { Json } from "./json.ts";

/** A secret known by value. One without a name is told of as `unnamed 1`, by its place among the unnamed ones. */
export type KnownSecret = string | { readonly name: string; readonly value: string };

/** A secret that stands masked in a text, and how often. */
export interface MaskedSecret {
  readonly name: string;
  readonly times: number;
}

/** A copy in which known secrets are replaced by `[secret NAME]`. */
export interface MaskedValue {
  readonly value: Json;
  readonly masked: readonly MaskedSecret[];
}
