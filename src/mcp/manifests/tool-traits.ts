import type { LoadingMode } from "../../core/action.ts";
import { type Effect, hasSideEffects } from "../../core/action.ts";
import { getOwn, isRecord } from "../../core/json.ts";
import { matchesGlob } from "../../core/name-patterns.ts";
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
  readonly loading?: LoadingMode;
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
export function resolveToolTraits(
  tool: Pick<OfferedTool, "name" | "annotations">,
  spec: Pick<ServerSpec, "trustAnnotations" | "tools">,
): ToolTraits {
  const override = spec.tools.findLast(({ match }) => matchesGlob(match, tool.name));
  const hints = readHints(spec.trustAnnotations ? tool.annotations : undefined);
  const effect = override?.effect ?? toEffect(hints);
  const changes = hasSideEffects(effect);
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

interface ToolHints {
  readonly readOnly: boolean;
  readonly destructive: boolean;
  readonly idempotent: boolean;
  readonly openWorld: boolean;
}

function readHints(annotations: unknown): ToolHints {
  const readHint = (name: string, absent: boolean, worst: boolean): boolean => {
    const value = isRecord(annotations) ? getOwn(annotations, name) : undefined;
    if (value === undefined) return absent;
    return typeof value === "boolean" ? value : worst;
  };
  const readOnly = readHint("readOnlyHint", false, false);
  // Of a tool that only reads nothing is said by leaving out whether it destroys.
  const destructive = readHint("destructiveHint", !readOnly, true);
  const contradictory = readOnly && destructive;
  return {
    readOnly: readOnly && !contradictory,
    destructive,
    idempotent: !contradictory && readHint("idempotentHint", false, false),
    openWorld: contradictory || readHint("openWorldHint", true, true),
  };
}

function toEffect({ readOnly, openWorld }: ToolHints): Effect {
  if (readOnly) return "read";
  return openWorld ? "external" : "write";
}
