/** A type that only its own parser can make: `Brand<string, "ActionName">` is not assignable from a plain string. */
export type Brand<T, Name extends string> = T & { readonly [brand]: Name };

declare const brand: unique symbol;
