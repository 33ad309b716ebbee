import type { Sign } from "./sign.ts";

/** A sign within one text: where it begins and ends there. */
export interface Finding extends Pick<Sign, "kind" | "severity"> {
  readonly from: number;
  readonly to: number;
}
