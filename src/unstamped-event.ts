import type { NewEvent } from "./core/events.ts";

/** What happened, before it is said when and on whose behalf. */
export type UnstampedEvent = {
  [Type in NewEvent["type"]]: Pick<Extract<NewEvent, { type: Type }>, "type" | "data">;
}[NewEvent["type"]];
