// Engines bound the values of one statement; a row has up to 13.
const PORTION = 500;

/** A list in parts that one statement can take. */
export function* portions<T>(list: readonly T[]): Generator<readonly T[]> {
  for (let at = 0; at < list.length; at += PORTION) yield list.slice(at, at + PORTION);
}
