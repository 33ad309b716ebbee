/** One thing `qm doctor` looked at. */
export interface Check {
  readonly about: string;
  readonly status: "ok" | "warn" | "fail";
  readonly message: string;
  /** What to do about it. */
  readonly todo?: string;
}

export function ok(about: string, message: string): Check {
  return { about, status: "ok", message };
}

export function warn(about: string, message: string, todo: string): Check {
  return { about, status: "warn", message, todo };
}

export function fail(about: string, message: string, todo: string): Check {
  return { about, status: "fail", message, todo };
}
