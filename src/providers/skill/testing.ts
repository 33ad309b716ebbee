import { digestFiles, type FileBytes, hashBytes } from "../../core/file-digest.ts";
import type { MethodServices } from "./method/method-services.ts";
import type { SkillPin, SkillPinStore } from "./skill-pins.ts";
import { createSkillTrust, type SkillTrust } from "./skill-trust.ts";

/** Pins that end with the process. */
export function createMemorySkillPins(): SkillPinStore {
  const pins = new Map<string, { readonly pin: SkillPin; readonly files: FileBytes }>();
  const toKey = (root: string, skill: string) => `${root}\n${skill}`;
  const replace = async (pin: SkillPin, files: FileBytes) => void pins.set(toKey(pin.root, pin.skill), { pin, files });
  return {
    all: async () => [...pins.values()].map(({ pin }) => pin),
    get: async (root, skill) => pins.get(toKey(root, skill))?.pin,
    async getFiles(root, skill) {
      const files = digestFiles(pins.get(toKey(root, skill))?.files ?? new Map());
      return Object.fromEntries(files.map(({ path, digest }) => [path, digest]));
    },
    getContent: async (digest) =>
      [...pins.values()].flatMap(({ files }) => [...files.values()]).find((bytes) => hashBytes(bytes) === digest),
    async add(pin, files) {
      const known = pins.get(toKey(pin.root, pin.skill))?.pin;
      if (known === undefined) await replace(pin, files);
      return { pin: known ?? pin, isNew: known === undefined };
    },
    replace,
  };
}

/** For skills of other types. */
export const noMethods = {} as MethodServices;

/** Trust without a store and without a scan. */
export const createTestTrust = (): SkillTrust =>
  createSkillTrust({ pins: createMemorySkillPins(), runtime: { now: () => new Date() } });
