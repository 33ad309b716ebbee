import type { SkillFileHashes, SkillPin, SkillPinStore } from "./skill-pins.ts";
import { createSkillTrust, type SkillTrust } from "./skill-trust.ts";

/** Pins that end with the process. */
export function createMemorySkillPins(): SkillPinStore {
  const pins = new Map<string, { readonly pin: SkillPin; readonly files: SkillFileHashes }>();
  const toKey = (root: string, skill: string) => `${root}\n${skill}`;
  const replace = async (pin: SkillPin, files: SkillFileHashes) =>
    void pins.set(toKey(pin.root, pin.skill), { pin, files });
  return {
    all: async () => [...pins.values()].map(({ pin }) => pin),
    get: async (root, skill) => pins.get(toKey(root, skill))?.pin,
    getFiles: async (root, skill) => pins.get(toKey(root, skill))?.files ?? {},
    async add(pin, files) {
      const known = pins.get(toKey(pin.root, pin.skill))?.pin;
      if (known === undefined) await replace(pin, files);
      return { pin: known ?? pin, isNew: known === undefined };
    },
    replace,
  };
}

/** Trust without a store and without a scan. */
export const createTestTrust = (): SkillTrust =>
  createSkillTrust({ pins: createMemorySkillPins(), runtime: { now: () => new Date() } });
