import { fields } from "./fields.ts";

export const weights = {
  k1: 0.8,
  field: { name: 3, namespace: 2, labels: 1.2, description: 1, parameters: 0.5, details: 0.3 } as Record<string, number>,
  b: { name: 0.7, namespace: 0.3, labels: 0.3, description: 0.6, parameters: 0.6, details: 0.6 } as Record<string, number>,
  synonym: 0.5,
  kind: 0.5,
  verb: 0.15,
  other: 0.15,
  typo: 0.5,
  prefix: 0.4,
  joined: 0.8,
  part: 0.4,
  half: 0.5,
  soft: 0.45,
  number: 0.3,
  coverage: 0.3,
  naming: 0.4,
  idfPower: 1,
  idfFloor: 0,
  question: 0,
  quoted: 1,
  lead: 1,
  pair: 0,
  gate: 0,
  cap: 4,
  gateNamed: 1,

  surface: 0,

};
export const fieldWeight = (f: number) => weights.field[fields[f] ?? ""] ?? 0;
export const fieldB = (f: number) => weights.b[fields[f] ?? ""] ?? 0;
