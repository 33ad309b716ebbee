import { canonicalJson } from "../../core/json.ts";
import { type Change, createFace, type Face, type FaceParts } from "./face.ts";
import type { GatewayProfile } from "./gateway.ts";

/** One face a profile. A profile that was changed is another one. */
export interface Faces {
  of(profile: GatewayProfile): Face;
  changed(what: Change): void;
  close(): Promise<void>;
}

/** More than anybody configures; what is left of earlier configurations makes room. */
const FACES_LIMIT = 64;

export function createFaces(parts: FaceParts): Faces {
  const faces = new Map<string, Face>();
  const keys = new WeakMap<GatewayProfile, string>();
  const keyOf = (profile: GatewayProfile): string => {
    const key = keys.get(profile) ?? canonicalJson(profile);
    keys.set(profile, key);
    return key;
  };

  return {
    of(profile) {
      const key = keyOf(profile);
      const known = faces.get(key);
      if (known !== undefined) return known;
      const face = createFace(parts, profile);
      faces.set(key, face);
      const [oldest] = faces;
      if (faces.size > FACES_LIMIT && oldest !== undefined) {
        faces.delete(oldest[0]);
        oldest[1].close().catch(() => {});
      }
      return face;
    },
    changed(what) {
      for (const face of faces.values()) face.changed(what);
    },
    async close() {
      await Promise.all([...faces.values()].map((face) => face.close()));
      faces.clear();
    },
  };
}
