import { defineResource } from "../catalog/define.ts";
import type { Action, MadeFrom, Owner } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { actionName } from "../core/names.ts";
import { handleOf, type ResourceKind } from "./handle.ts";
import { type Collection, type NoteFacts, type Origin, type Reach, sourcesOf } from "./note.ts";

/** The category of the primitives. */
export const INFOSPACE = "infospace";

/** What invoking a note or a collection runs. */
export const LOAD = actionName(INFOSPACE, "load");

/** What decides on access to a note or a collection: an action whose owner is whoever it reaches. */
export function resourceAction(kind: ResourceKind, resource: NoteFacts | Collection): Action {
  const handle = handleOf(kind, resource.id);
  const action = defineResource(kind, {
    entry: String(resource.id),
    description: descriptionOf(kind, resource),
    target: LOAD,
    transform: { set: { target: handle } },
  });
  return Object.freeze({ ...action, owner: ownerOf(resource), madeFrom: madeFrom(resource.origin) });
}

/** What decides on who may know of something, beside whom it reaches. */
export function madeFrom(origin: Origin): MadeFrom {
  return { actions: sourcesOf(origin), maker: ownerOf({ origin, reach: "actor" }) };
}

/** Something that the caller makes now, before it is there: what the policy says of it, it says of the next one. */
export function ownResource(kind: ResourceKind, { tenant = "", user, session }: Caller): Action {
  const action = defineResource(kind, { entry: "0", description: "", target: LOAD, transform: {} });
  return Object.freeze({ ...action, owner: { tenant, user: user?.id ?? "", session } });
}

function ownerOf({ origin: { tenant = "", user = "", actor, session }, reach }: OwnedBy): Owner {
  switch (reach) {
    case "session":
      return { tenant, user, session };
    case "actor":
      return { tenant, user, actor };
    case "tenant":
      return { tenant };
  }
}

type OwnedBy = Pick<NoteFacts, "origin"> & { readonly reach: Reach };

function descriptionOf(kind: ResourceKind, { name, bytes, origin, ...rest }: NoteFacts | Collection): string {
  const called = name === undefined ? "" : ` ${JSON.stringify(name)}`;
  const what = "count" in rest ? `${rest.count} notes, ${bytes} bytes` : `${rest.format}, ${bytes} bytes`;
  return `Load the ${kind}${called}: ${what}, of ${origin.action}.`;
}
