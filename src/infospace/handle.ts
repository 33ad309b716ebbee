import { type ActionName, actionName } from "../core/names.ts";

/** What a handle can lead to. The kinds are categories of actions: invoking one loads it. */
export type ResourceKind = "note" | "collection";

/** A handle taken apart. */
export interface Reference {
  readonly kind: ResourceKind;
  readonly id: number;
}

const HANDLE = /^(note|collection)__([1-9]\d{0,14})$/;

/** The reading of `note__12` or `collection__7`; undefined for everything else. */
export function parseHandle(text: string): Reference | undefined {
  const [, kind, id] = HANDLE.exec(text) ?? [];
  return kind === undefined ? undefined : { kind: kind as ResourceKind, id: Number(id) };
}

export function handleOf(kind: ResourceKind, id: number): ActionName {
  return actionName(kind, String(id));
}
