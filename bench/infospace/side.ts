export const tasks = ["create", "load", "read all", "filter", "join", "search", "search again"] as const;

export type Task = (typeof tasks)[number];

/** One way of doing all of them over the same records. Each answers a count, so that all can be held to the same. */
export type Side = Readonly<Record<Task, () => Promise<number> | number>> & {
  readonly name: string;
  close(): Promise<void> | void;
};
