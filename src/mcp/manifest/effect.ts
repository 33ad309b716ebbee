import type { Loading } from "../../core/action.ts";
import { changesSomething, type Effect } from "../../core/effect.ts";
import { matchesGlob } from "../../core/glob.ts";
import { getOwn, isRecord } from "../../core/json.ts";
import type { ServerSpec, ToolOverride } from "../server-spec.ts";
import type { OfferedTool } from "./offer.ts";

/** What a call of a tool can do, and how it is treated for that. */
export interface ToolTraits {
  readonly effect: Effect;
  readonly tags: readonly string[];
  /** Whether a call may be made twice without harm. */
  readonly idempotent: boolean;
  /** Whether a person must agree to each call. Absent: nobody has said. */
  readonly approval?: boolean;
  readonly loading?: Loading;
  readonly arguments?: ToolOverride["arguments"];
  /** `false`: it is not offered to anybody. */
  readonly enabled: boolean;
}

/** Of a tool that may undo what cannot be done again. */
const DESTRUCTIVE = "destructive";

/**
 * Reads a tool's annotations, as far as its server is trusted, and what the configuration says of it: of the overrides
 * that fit the last counts, alone. What is missing, no boolean, or contradicts itself is read as the worst it can mean.
 */
export function effectOf(
  tool: Pick<OfferedTool, "name" | "annotations">,
  spec: Pick<ServerSpec, "trustAnnotations" | "tools">,
): ToolTraits {
  const override = spec.tools.findLast(({ match }) => matchesGlob(match, tool.name));
  const hints = hintsOf(spec.trustAnnotations ? tool.annotations : undefined);
  const effect = override?.effect ?? effectOfHints(hints);
  const changes = changesSomething(effect);
  return {
    effect,
    tags: [...new Set([...(changes && hints.destructive ? [DESTRUCTIVE] : []), ...(override?.tags ?? [])])],
    idempotent: !changes || hints.idempotent,
    ...(override?.approval === undefined ? {} : { approval: override.approval }),
    ...(override?.loading === undefined ? {} : { loading: override.loading }),
    ...(override?.arguments === undefined ? {} : { arguments: override.arguments }),
    enabled: override?.enabled ?? true,
  };
}

interface Hints {
  readonly readOnly: boolean;
  readonly destructive: boolean;
  readonly idempotent: boolean;
  readonly openWorld: boolean;
}

function hintsOf(annotations: unknown): Hints {
  const hint = (name: string, absent: boolean, worst: boolean): boolean => {
    const value = isRecord(annotations) ? getOwn(annotations, name) : undefined;
    if (value === undefined) return absent;
    return typeof value === "boolean" ? value : worst;
  };
  const readOnly = hint("readOnlyHint", false, false);
  // Of a tool that only reads nothing is said by leaving out whether it destroys.
  const destructive = hint("destructiveHint", !readOnly, true);
  const contradictory = readOnly && destructive;
  return {
    readOnly: readOnly && !contradictory,
    destructive,
    idempotent: !contradictory && hint("idempotentHint", false, false),
    openWorld: contradictory || hint("openWorldHint", true, true),
  };
}

function effectOfHints({ readOnly, openWorld }: Hints): Effect {
  if (readOnly) return "read";
  return openWorld ? "external" : "write";
}
