import { defineResource } from "../catalog/define-action.ts";
import type { Action, ActionOwner, ActionProvenance } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { actionName } from "../core/names.ts";
import type { InfospaceOptions } from "./infospace.ts";
import type { InfospaceStore, ResourceQuery } from "./infospace-store.ts";
import type { Collection, NoteFacts, NoteOrigin, NoteVisibility, Resource, ResourceKind } from "./note.ts";
import { formatHandle, listSources } from "./note.ts";

/** The category of the primitives. */
export const INFOSPACE = "infospace";

/** The action that runs when a note or collection is invoked. */
export const LOAD = actionName(INFOSPACE, "load");

/** A resource as the action that the policy decides on. Its owner is everyone in its reach. */
export function toResourceAction(kind: ResourceKind, resource: Resource): Action {
  const action = defineResource(kind, {
    entry: String(resource.id),
    description: describeResource(kind, resource),
    target: LOAD,
    transform: { set: { target: formatHandle(kind, resource.id) } },
  });
  return Object.freeze({ ...action, owner: toOwner(resource), madeFrom: toProvenance(resource.origin) });
}

/** The source actions and the maker, which also decide who may know of the resource. */
export function toProvenance(origin: NoteOrigin): ActionProvenance {
  return { actions: listSources(origin), maker: toOwner({ origin, reach: "actor" }) };
}

/** A resource that the caller is about to make, to ask the policy about it before it exists. */
export function createOwnResource(kind: ResourceKind, { tenant = "", user, session }: Caller): Action {
  const action = defineResource(kind, { entry: "0", description: "", target: LOAD, transform: {} });
  return Object.freeze({ ...action, owner: { tenant, user: user?.id ?? "", session } });
}

function toOwner(resource: Pick<NoteFacts, "origin"> & { readonly reach: NoteVisibility }): ActionOwner {
  const { tenant = "", user = "", actor, session } = resource.origin;
  if (resource.reach === "tenant") return { tenant };
  return resource.reach === "actor" ? { tenant, user, actor } : { tenant, user, session };
}

function describeResource(kind: ResourceKind, { name, bytes, origin, ...rest }: Resource): string {
  const title = name === undefined ? "" : ` ${JSON.stringify(name)}`;
  const size = "count" in rest ? `${rest.count} notes, ${bytes} bytes` : `${rest.format}, ${bytes} bytes`;
  return `Load the ${kind}${title}: ${size}, of ${origin.action}.`;
}

type Resources = Readonly<{ note: NoteFacts; collection: Collection }>;
type UsableQuery<Kind> = Omit<ResourceQuery, "limit" | "kind"> & { readonly kind: Kind };

/** The resources that the caller may use, newest first. Skips any number of others, so that they do not change the result. */
export async function* listUsable<Kind extends ResourceKind>(
  { store, mayUse }: Pick<InfospaceOptions, "mayUse"> & { readonly store: Pick<InfospaceStore, "list"> },
  query: UsableQuery<Kind>,
  caller: Caller | undefined,
  pageSize = 100,
): AsyncGenerator<Resources[Kind]> {
  const { kind } = query;
  for (let { before } = query; ; ) {
    const request = { ...query, before, limit: pageSize } as ResourceQuery & { readonly kind: "note" };
    const page = (await store.list(request)) as readonly Resources[Kind][];
    yield* page.filter((each) => caller === undefined || mayUse(toResourceAction(kind, each), caller) === "allowed");
    before = page.at(-1)?.id;
    if (page.length < pageSize) return;
  }
}

export async function listFirstUsable<Kind extends ResourceKind>(
  parts: Parameters<typeof listUsable>[0],
  query: UsableQuery<Kind>,
  caller: Caller,
  limit: number,
): Promise<readonly Resources[Kind][]> {
  const found: Resources[Kind][] = [];
  for await (const each of listUsable(parts, query, caller)) if (found.push(each) === limit) break;
  return found;
}
