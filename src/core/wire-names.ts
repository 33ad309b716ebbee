import { hash } from "node:crypto";

const WIRE_NAME = /^[a-zA-Z0-9_-]{1,64}$/;
// Only hashed names end like this: a plain name that does is hashed too, so the two kinds cannot clash.
const REWRITTEN = /-[0-9a-f]{12}(?:[0-9a-f]{12})?$/;

/**
 * Maps names to those that fit the narrowest provider grammar, and back. A name that does not fit is cut and gets a hash of
 * the whole, so that a wire name does not depend on other names. If two hashes clash, both get a longer one.
 */
export function createWireNames(names: Iterable<string>) {
  const odd = [...new Set(names)].filter((name) => !isWireName(name));
  const seen = new Set<string>();
  const repeated = new Set(odd.map((name) => toWireName(name)).filter((wire) => seen.size === seen.add(wire).size));
  const wires = new Map(odd.map((name) => [name, toWireName(name, repeated.has(toWireName(name)) ? 24 : 12)]));
  const back = new Map([...wires].map(([name, wire]) => [wire, name]));
  return {
    toWire: (name: string): string => wires.get(name) ?? toWireName(name),
    /** Undefined for an unknown hash. Other names are returned without a check. */
    fromWire: (wire: string): string | undefined => (isWireName(wire) ? wire : back.get(wire)),
  };
}

export function toWireName(name: string, hashLength = 12): string {
  if (isWireName(name)) return name;
  const ending = hash("sha256", name, "hex").slice(0, hashLength);
  const plain = name.replace(/[^a-zA-Z0-9_-]/gu, "_").slice(0, 64 - hashLength - 1);
  return `${plain}-${ending}`;
}

const isWireName = (name: string): boolean => WIRE_NAME.test(name) && !REWRITTEN.test(name);
