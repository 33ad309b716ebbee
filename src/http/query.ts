import { type ApprovalQuery, type ApprovalState, approvalStates } from "../approval/approval.ts";
import { QmError } from "../core/errors.ts";
import { quoted } from "../core/names.ts";

const PAGE = { standard: 100, most: 500 } as const;
const LONGEST_WAIT_MS = 55_000;

/** The choice of a list, with how many a page has. Throws `invalid_arguments` for what would silently choose otherwise. */
export function listQuery(given: URLSearchParams): ApprovalQuery & { readonly limit: number } {
  requireKnown(given, ["state", "session", "user", "action", "after", "limit"]);
  const states = given.getAll("state").flatMap((text) => text.split(","));
  const { session, user, action, after } = Object.fromEntries(given);
  return {
    limit: wholeNumber(given, "limit", 1, PAGE.most) ?? PAGE.standard,
    ...(states.length === 0 ? {} : { state: states.map(stateOf) }),
    ...(session === undefined ? {} : { session }),
    ...(user === undefined ? {} : { user }),
    ...(action === undefined ? {} : { action }),
    ...(after === undefined ? {} : { after }),
  };
}

/** Whether the secrets in a call are to be shown. */
export function isReveal(given: URLSearchParams): boolean {
  requireKnown(given, ["reveal"]);
  const reveal = given.get("reveal");
  if (reveal === null || reveal === "true") return reveal !== null;
  throw new QmError("invalid_arguments", "reveal must be true, or absent");
}

/** How long an outcome is waited for. */
export function waitMs(given: URLSearchParams): number {
  requireKnown(given, ["wait_ms"]);
  return wholeNumber(given, "wait_ms", 0, LONGEST_WAIT_MS) ?? 0;
}

function requireKnown(given: URLSearchParams, known: readonly string[]): void {
  for (const name of given.keys()) {
    if (!known.includes(name))
      throw new QmError("invalid_arguments", `${quoted(name)} is no parameter here`, {
        hint: `Known: ${known.join(", ")}.`,
      });
    if (name !== "state" && given.getAll(name).length > 1)
      throw new QmError("invalid_arguments", `${name} is given more than once`);
  }
}

function stateOf(text: string): ApprovalState {
  const found = approvalStates.find((state) => state === text);
  if (found !== undefined) return found;
  throw new QmError("invalid_arguments", `${quoted(text)} is no state`, {
    hint: `States: ${approvalStates.join(", ")}.`,
  });
}

function wholeNumber(given: URLSearchParams, name: string, from: number, to: number): number | undefined {
  const text = given.get(name);
  if (text === null) return undefined;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= from && value <= to) return value;
  throw new QmError("invalid_arguments", `${name} must be a whole number from ${from} to ${to}`);
}
