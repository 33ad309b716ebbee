import { fileURLToPath } from "node:url";

/** The `file:line` that called `entrance`, for errors and the ledger: a registration is found again by it. */
export function callSite(entrance: (...args: never[]) => unknown): string {
  const holder: { stack?: string } = {};
  Error.captureStackTrace(holder, entrance);
  const frame = holder.stack?.split("\n").find((line) => line.trimStart().startsWith("at ")) ?? "";
  const place = /\(?((?:file:\/\/)?[^()\s][^()]*?):(\d+):\d+\)?$/.exec(frame.trim().replace(/^at (?:async )?/, ""));
  if (place === null) return "unknown place";
  const [, where = "", line = ""] = place;
  return `${where.startsWith("file://") ? fileURLToPath(where) : where.replace(/^.* \(/, "")}:${line}`;
}
