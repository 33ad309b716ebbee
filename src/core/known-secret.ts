import type { Json } from "./json.ts";

/** A secret known by value. A secret without a name is shown as `unnamed 1`, by its position among those. */
export type KnownSecret = string | { readonly name: string; readonly value: string };
export type MaskedSecret = { readonly name: string; readonly times: number };

/** A copy in which known secrets are replaced by `[secret NAME]`. */
export type MaskedValue = { readonly value: Json; readonly masked: readonly MaskedSecret[] };
