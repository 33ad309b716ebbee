import { hash } from "node:crypto";

/** Both ways between names and what the narrowest provider grammar takes, for one set of names. */
export interface WireNames {
  toWire(name: string): string;
  /** Undefined for one that was made of none of the names; whether there is an action of the name, the view knows. */
  fromWire(wire: string): string | undefined;
}

const WIRE = /^[a-zA-Z0-9_-]{1,64}$/;
// Every name that had to be rewritten ends like this and no other does, so the two kinds cannot meet.
const REWRITTEN = /-[0-9a-f]{12}(?:[0-9a-f]{12})?$/;

/**
 * A name that fits stays itself; any other is cut and gets a hash of the whole, so that its wire name depends on nothing
 * but itself and stays the same whatever else is added. Should two still meet, both get the longer hash.
 */
export function wireNames(names: Iterable<string>): WireNames {
  const odd = [...new Set(names)].filter((name) => !fits(name));
  const met = repeated(odd.map((name) => wireOf(name, 12)));
  const wires = new Map(odd.map((name) => [name, met.has(wireOf(name, 12)) ? wireOf(name, 24) : wireOf(name, 12)]));
  const back = new Map([...wires].map(([name, wire]) => [wire, name]));
  return {
    toWire: (name) => wires.get(name) ?? wireOf(name, 12),
    fromWire: (wire) => (fits(wire) ? wire : back.get(wire)),
  };
}

export function wireOf(name: string, hashLength = 12): string {
  if (fits(name)) return name;
  const ending = hash("sha256", name, "hex").slice(0, hashLength);
  const plain = name.replace(/[^a-zA-Z0-9_-]/gu, "_").slice(0, 64 - hashLength - 1);
  return `${plain}-${ending}`;
}

function fits(name: string): boolean {
  return WIRE.test(name) && !REWRITTEN.test(name);
}

function repeated(values: readonly string[]): ReadonlySet<string> {
  const seen = new Set<string>();
  return new Set(values.filter((value) => seen.size === seen.add(value).size));
}
