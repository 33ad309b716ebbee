import { stemOf, wordsIn } from "./words.ts";

// What names and requests say is to be done with a thing; a question asks to look. Verbs of any other kind are left out.
const kinds = [
  `get list show read fetch retrieve view find search query lookup describe check count browse inspect display tell give
  see explore enumerate know status detail info track monitor what which how who where when many much is are does any`,
  `create add new insert make generate build register provision open book schedule write draft compose upload import
  start begin`,
  `update edit modify change set rename adjust patch configure assign move alter replace enable disable increase
  decrease turn resize`,
  "delete remove erase destroy drop clear cancel revoke uninstall purge terminate unassign detach stop end",
];

let deeds: ReadonlyMap<string, number> | undefined;

function read(): ReadonlyMap<string, number> {
  return new Map(
    kinds.flatMap((verbs, index) => verbs.split(/\s+/).map((verb) => [stemOf(verb), 1 << index] as const)),
  );
}

const LOOKED_AT = 1_000;

/** All that a text says is to be done, a bit each; 0 when it does not say. */
export function deedsIn(text: string): number {
  deeds ??= read();
  let found = 0;
  for (const { terms } of wordsIn(text.slice(0, LOOKED_AT))) {
    for (const term of terms) found |= deeds.get(term) ?? 0;
  }
  return found;
}
