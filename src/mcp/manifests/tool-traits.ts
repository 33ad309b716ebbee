import { type Effect, hasSideEffects } from "../../core/action.ts";
import { getOwn, isRecord, omitUndefined } from "../../core/json.ts";
import { matchesGlob } from "../../core/name-patterns.ts";
import type { ServerSpec } from "../server-spec.ts";
import type { OfferedTool } from "./offer.ts";

/** Combines trusted annotations with the last matching override. Missing or malformed ones count as the worst. */
export function resolveToolTraits(
  tool: Pick<OfferedTool, "name" | "annotations">,
  spec: Pick<ServerSpec, "trustAnnotations" | "tools">,
) {
  const override = spec.tools.findLast(({ match }) => matchesGlob(match, tool.name));
  const hints = readHints(spec.trustAnnotations ? tool.annotations : undefined);
  const effect: Effect = override?.effect ?? (hints.readOnly ? "read" : hints.openWorld ? "external" : "write");
  const changes = hasSideEffects(effect);
  return {
    effect,
    tags: [...new Set([...(changes && hints.destructive ? ["destructive"] : []), ...(override?.tags ?? [])])],
    idempotent: !changes || hints.idempotent,
    /** `approval`: whether a person must agree to each call. Absent: not configured. */
    ...omitUndefined({ approval: override?.approval, loading: override?.loading, arguments: override?.arguments }),
    enabled: override?.enabled ?? true,
  };
}

function readHints(annotations: unknown) {
  const readHint = (name: string, absent: boolean, worst: boolean): boolean => {
    const value = isRecord(annotations) ? getOwn(annotations, name) : undefined;
    if (value === undefined) return absent;
    return typeof value === "boolean" ? value : worst;
  };
  const readOnly = readHint("readOnlyHint", false, false);
  // A read-only tool need not say that it is not destructive.
  const destructive = readHint("destructiveHint", !readOnly, true);
  const contradictory = readOnly && destructive;
  return {
    readOnly: readOnly && !contradictory,
    destructive,
    idempotent: !contradictory && readHint("idempotentHint", false, false),
    openWorld: contradictory || readHint("openWorldHint", true, true),
  };
}
