import { isRecord, type Json } from "../core/json.ts";
import type { Masked, MaskedSecret } from "../core/known-secret.ts";
import { characterWarnings } from "../core/visible.ts";
import type { Approval, ShownApproval } from "./approval.ts";

/** An approval as people are shown it: exactly what would run, but for known secrets that `mask` hides by name. */
export function showApproval(approval: Approval, mask: (value: Json) => Masked): ShownApproval {
  const { args, outcome: _outcome, delivered: _, executor: _executor, caller, preview, ...rest } = approval;
  const { actor, session, turn, tenant, user, person } = caller;
  const { value, masked } = mask(preview === undefined ? [args] : [args, preview]);
  const [shownArgs = null, shownPreview] = value as readonly Json[];
  return {
    ...rest,
    args: shownArgs,
    ...(preview === undefined ? {} : { preview: String(shownPreview) }),
    masked,
    warnings: warningsFor([args, preview ?? null], value),
    actor,
    session,
    ...(turn === undefined ? {} : { turn }),
    ...(tenant === undefined ? {} : { tenant }),
    ...(user === undefined ? {} : { user: user.id }),
    ...(person === undefined ? {} : { person }),
  };
}

/** `GITHUB_TOKEN (2 times)`, for people: what is masked, so that nothing else is taken for a mask. */
export function maskedText(masked: readonly MaskedSecret[]): string {
  return masked.map(({ name, times }) => (times === 1 ? name : `${name} (${times} times)`)).join(", ");
}

/** A caller may write what looks like a mask, to have somebody believe that a harmless secret stands there. */
const LIKE_A_MASK = /\[\s*(?:secret|redacted)\b/i;

function warningsFor(exact: Json, shown: Json): readonly string[] {
  return [
    ...characterWarnings(textIn(shown)),
    ...(LIKE_A_MASK.test(textIn(exact)) ? ["contains text that looks like a masked secret and is none"] : []),
  ];
}

/** Every text in a value, keys included, as it is and not as JSON would escape it. */
function textIn(value: Json): string {
  const texts: string[] = [];
  const collect = (part: Json): void => {
    if (typeof part === "string") texts.push(part);
    else if (Array.isArray(part)) for (const each of part) collect(each);
    else if (isRecord(part))
      for (const key of Object.keys(part)) {
        texts.push(key);
        collect(part[key] as Json);
      }
  };
  collect(value);
  return texts.join("\n");
}
