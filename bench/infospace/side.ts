export const tasks = ["create", "load", "read all", "filter", "join", "search", "search again"] as const;

export type Task = (typeof tasks)[number];

/** One implementation of all tasks over the same records. Each task returns a count, so the results can be compared. */
export type Side = Readonly<Record<Task, () => Promise<number> | number>> & {
  readonly name: string;
  close(): Promise<void> | void;
};
