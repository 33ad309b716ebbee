export const memoryTypes = ["user", "feedback", "project", "reference"] as const;
export type MemoryType = (typeof memoryTypes)[number];

/** `shared`: all actors of a tenant have it. `agent`: one actor of a tenant has it. */
export const memoryLayers = ["shared", "agent"] as const;
export type MemoryLayer = (typeof memoryLayers)[number];

/** In characters, except `entries`: the entries of one layer of one owner. */
export const memoryLimits = { slug: 64, name: 120, description: 300, body: 32_768, entries: 1_000 } as const;

/** Without a dot, so that `agent.<slug>` is never the slug of a shared entry. */
export const SLUG_FORM = /^[a-z0-9]+(?:[-_][a-z0-9]+)*$/;
export const isMemorySlug = (text: string): boolean => text.length <= memoryLimits.slug && SLUG_FORM.test(text);

export interface MemoryText {
  readonly slug: string;
  readonly name: string;
  readonly description: string;
  readonly type: MemoryType;
  readonly body: string;
}
