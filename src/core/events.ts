import type { z } from "zod";
import type { eventShapes } from "./event-shapes.ts";

export type EventType = keyof typeof eventShapes;

export type NewEvent = {
  [Type in EventType]: {
    readonly type: Type;
    readonly at: Date;
    readonly session: string;
    readonly actor?: string;
    readonly tenant?: string;
    readonly turn?: string;
    readonly user?: string;
    readonly person?: string;
    readonly data: z.input<(typeof eventShapes)[Type]>;
  };
}[EventType];

export type UnstampedEvent<Types extends EventType = EventType> = {
  [Type in Types]: Pick<Extract<NewEvent, { type: Type }>, "type" | "data">;
}[Types];

/** The most action names in one event; a count beside them tells how many there are. */
export const EVENT_NAMES_LIMIT = 100;

/** The session of events without a caller: registrations, configuration, the catalog. */
export const SYSTEM_SESSION = "system";
