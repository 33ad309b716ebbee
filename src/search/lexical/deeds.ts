import { stemOf } from "./words.ts";

// What names and requests say is to be done with a thing. Verbs that say neither of these are left out.
const verbs = {
  look: "get list show read fetch retrieve view find search query lookup describe check count browse inspect display tell give see check explore enumerate know what which how who where when many much is are does any status detail info info lookup track monitor",
  create: "create add new insert make generate build register provision open book schedule write draft compose upload import start begin",
  change: "update edit modify change set rename adjust patch configure assign move alter replace enable disable increase decrease turn resize",
  remove: "delete remove erase destroy drop clear cancel revoke uninstall purge terminate unassign detach stop end",
};
const deeds = new Map<string, number>();
Object.values(verbs).forEach((words, index) => {
  for (const word of words.split(" ")) if (!deeds.has(stemOf(word))) deeds.set(stemOf(word), index + 1);
});

/** A number for what kind of deed the first telling word is; 0 when none is. */
export function deedOf(stems: Iterable<string>): number {
  for (const stem of stems) {
    const deed = deeds.get(stem);
    if (deed !== undefined) return deed;
  }
  return 0;
}
