import { defineResource } from "../catalog/define-action.ts";
import type { Action, ActionOwner, ActionProvenance } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import { actionName } from "../core/names.ts";
import type { InfospaceOptions } from "./infospace.ts";
import type { InfospaceStore, ResourceQuery } from "./infospace-store.ts";
import {
  type Collection,
  formatHandle,
  listSources,
  type NoteFacts,
  type NoteOrigin,
  type NoteVisibility,
  type ResourceKind,
} from "./note.ts";

/** The category of the primitives. */
export const INFOSPACE = "infospace";

/** What invoking a note or a collection runs. */
export const LOAD = actionName(INFOSPACE, "load");

/** What decides on access to a note or a collection: an action whose owner is whoever it reaches. */
export function toResourceAction(kind: ResourceKind, resource: NoteFacts | Collection): Action {
  const handle = formatHandle(kind, resource.id);
  const action = defineResource(kind, {
    entry: String(resource.id),
    description: describeResource(kind, resource),
    target: LOAD,
    transform: { set: { target: handle } },
  });
  return Object.freeze({ ...action, owner: toOwner(resource), madeFrom: toProvenance(resource.origin) });
}

/** What decides on who may know of something, beside whom it reaches. */
export function toProvenance(origin: NoteOrigin): ActionProvenance {
  return { actions: listSources(origin), maker: toOwner({ origin, reach: "actor" }) };
}

/** Something that the caller makes now, before it is there: what the policy says of it, it says of the next one. */
export function createOwnResource(kind: ResourceKind, { tenant = "", user, session }: Caller): Action {
  const action = defineResource(kind, { entry: "0", description: "", target: LOAD, transform: {} });
  return Object.freeze({ ...action, owner: { tenant, user: user?.id ?? "", session } });
}

function toOwner({ origin: { tenant = "", user = "", actor, session }, reach }: OwnedResource): ActionOwner {
  switch (reach) {
    case "session":
      return { tenant, user, session };
    case "actor":
      return { tenant, user, actor };
    case "tenant":
      return { tenant };
  }
}

type OwnedResource = Pick<NoteFacts, "origin"> & { readonly reach: NoteVisibility };

function describeResource(kind: ResourceKind, { name, bytes, origin, ...rest }: NoteFacts | Collection): string {
  const called = name === undefined ? "" : ` ${JSON.stringify(name)}`;
  const what = "count" in rest ? `${rest.count} notes, ${bytes} bytes` : `${rest.format}, ${bytes} bytes`;
  return `Load the ${kind}${called}: ${what}, of ${origin.action}.`;
}

type ListUsableOptions = Pick<InfospaceOptions, "mayUse"> & { readonly store: Pick<InfospaceStore, "list"> };
type UsableQuery = Omit<ResourceQuery, "limit">;

const PAGE = 100;

/**
 * What the caller may use, the newest first. Reads on past what the caller may not use: how many of those there are must not
 * change what is found.
 */
export function listUsable(
  parts: ListUsableOptions,
  query: UsableQuery & { readonly kind: "note" },
  caller: Caller | undefined,
  page?: number,
): AsyncGenerator<NoteFacts>;
export function listUsable(
  parts: ListUsableOptions,
  query: UsableQuery & { readonly kind: "collection" },
  caller: Caller | undefined,
  page?: number,
): AsyncGenerator<Collection>;
export function listUsable(
  parts: ListUsableOptions,
  query: UsableQuery,
  caller: Caller | undefined,
  page?: number,
): AsyncGenerator<NoteFacts | Collection>;
export async function* listUsable(
  { store, mayUse }: ListUsableOptions,
  query: UsableQuery,
  caller: Caller | undefined,
  page = PAGE,
): AsyncGenerator<NoteFacts | Collection> {
  const { kind } = query;
  for (let { before } = query; ; ) {
    const asked = { ...query, before, limit: page };
    const found = await (kind === "note"
      ? store.list({ ...asked, kind: "note" })
      : store.list({ ...asked, kind: "collection" }));
    yield* found.filter((each) => caller === undefined || mayUse(toResourceAction(kind, each), caller) === "allowed");
    before = found.at(-1)?.id;
    if (found.length < page) return;
  }
}
