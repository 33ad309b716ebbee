import type { Caller } from "./core/caller.ts";
import { QmError } from "./core/errors.ts";
import { nearest } from "./core/nearest.ts";
import { type CallerOptions, callerShape, requireShape } from "./options.ts";
import type { CompiledActor } from "./policy/actors.ts";
import type { Policy } from "./policy/policy.ts";

/** The caller as the host described it, checked and filled in. Throws `invalid_config`. */
export function completed(caller: CallerOptions | undefined): Caller {
  if (caller !== undefined) requireShape(callerShape, "caller", caller);
  return filledIn(caller);
}

export function filledIn(caller: CallerOptions = {}): Caller {
  return { ...caller, actor: caller.actor ?? "default", session: caller.session ?? "local" };
}

/** The configuration a caller acts under. Throws `unknown_actor`. */
export function requireActor(policy: Policy, actor: string): CompiledActor {
  const known = policy.actors.get(actor);
  if (known !== undefined) return known;
  const near = nearest(actor, policy.actors.keys());
  throw new QmError("unknown_actor", `no actor ${JSON.stringify(actor)} is configured`, {
    hint: near === undefined ? `Known actors: ${[...policy.actors.keys()].join(", ")}.` : `Did you mean ${near}?`,
  });
}
