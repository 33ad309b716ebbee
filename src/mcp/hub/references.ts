/** Puts values where `${env:NAME}` and `${secret:NAME}` stand in the value of a key. */
export type Fill = (text: string, key: string) => string;

/** Not where the `$` is doubled: that stands for itself. */
const REFERENCE = /(?<!\$)\$\{((?:env|secret):[A-Za-z_][A-Za-z0-9_]*)\}/g;

/** A function that fills, and beside it every value that came out of a reference until now, by the reference. */
export function noting(fill: Fill): { readonly fill: Fill; readonly values: Readonly<Record<string, string>> } {
  const values: Record<string, string> = {};
  return {
    values,
    fill(text, key) {
      const filled = fill(text, key);
      for (const [reference, name = ""] of text.matchAll(REFERENCE)) values[name] = fill(reference, key);
      return filled;
    },
  };
}
