import type { Provider } from "../../catalog/provider.ts";
import type { Action } from "../../core/action.ts";
import { INFOSPACE } from "../resource.ts";
import { aggregating } from "./aggregating.ts";
import { computing } from "./computing.ts";
import { finding } from "./finding.ts";
import { type MapParts, mapping } from "./mapping.ts";
import { sets } from "./sets.ts";
import { shaping } from "./shaping.ts";
import { storage } from "./storage.ts";
import { structured } from "./structured.ts";
import { talking } from "./talking.ts";

/** What can be done with notes and collections without reading them. */
export function infospaceProvider(parts: MapParts): Provider {
  const kinds = [storage, computing, mapping, shaping, structured, aggregating, sets, finding, talking];
  const actions = kinds.flatMap((make) => make(parts).map(keepingTokens));
  return {
    category: INFOSPACE,
    capability: "keep, narrow, join and search long results by reference, without reading them",
    list: () => actions,
  };
}

/** What is kept is what the model may see, tokens and all. Only what is said to a person is filled in. */
function keepingTokens(action: Action): Action {
  return action.entry === "say" ? action : Object.freeze({ ...action, keepsTokens: true });
}
