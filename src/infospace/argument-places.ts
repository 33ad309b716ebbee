import { QmError } from "../core/errors.ts";
import { isRecord } from "../core/json.ts";
import { quoted } from "../core/names.ts";
import { parseHandle } from "./handle.ts";
import { type Path, parsePath } from "./path.ts";
import { type Written, writtenHandle } from "./written-handle.ts";

/** Where something is written that stands for a value. */
export interface Place {
  readonly at: string;
  readonly written: Written;
  readonly path: Path;
  /** The same for places that need the same note, or the same collection or item of it. */
  readonly source: string;
  /** Whether a text there would be taken for a handle. */
  readonly isHandle: boolean;
}

/** The same arguments with what `put` answers in each place; where a handle is meant, with that. */
export function replaced(args: unknown, asHandles: readonly string[], put: (place: Place) => unknown): unknown {
  function within(value: unknown, at: string): unknown {
    const written = writtenHandle(value, at);
    if (written !== undefined) return put(placeOf(written, at));
    if (Array.isArray(value)) return value.map((part, index) => within(part, `${at}[${index}]`));
    return isRecord(value) ? withEntries(value, (key, part) => within(part, `${at}${step(key, ".")}`)) : value;
  }

  function handleAt(part: unknown, at: string): unknown {
    const written = writtenHandle(part, at);
    if (written === undefined) return within(part, at);
    return bareHandle(written) ?? put({ ...placeOf(written, at), isHandle: true });
  }

  if (writtenHandle(args, "") !== undefined) {
    if (asHandles.length > 0) throw fromData("");
    return within(args, "");
  }
  if (!isRecord(args)) return within(args, "");
  return withEntries(args, (key, part) => {
    const at = step(key);
    if (asHandles.includes(`${key}[]`)) return handlesAt(part, at);
    return asHandles.includes(key) ? handleAt(part, at) : within(part, at);
  });
}

/** One handle or several, and nothing but these. */
function handlesAt(part: unknown, at: string): unknown {
  if (Array.isArray(part)) return part.map((each, index) => handlesAt(each, `${at}[${index}]`));
  const written = writtenHandle(part, at);
  if (written === undefined) return part;
  const handle = bareHandle(written);
  if (handle === undefined) throw fromData(at);
  return handle;
}

function placeOf(written: Written, at: string): Place {
  const { handle, version, path: text = "" } = written;
  try {
    const path = parsePath(text);
    const [first = ""] = parseHandle(handle)?.kind === "collection" ? path.steps : [];
    return { at, written, path, source: JSON.stringify([handle, version ?? null, first]), isHandle: false };
  } catch (thrown) {
    throw placed(thrown, at);
  }
}

function withEntries(record: Readonly<Record<string, unknown>>, put: (key: string, part: unknown) => unknown) {
  return Object.fromEntries(Object.entries(record).map(([key, part]) => [key, put(key, part)]));
}

/** The handle, where nothing but that is written. */
function bareHandle(written: Written): string | undefined {
  return Object.keys(written).length > 1 ? undefined : written.handle;
}

function step(key: string, before = ""): string {
  return /^[\p{L}_$][\p{L}\p{N}_$-]*$/u.test(key) ? `${before}${key}` : `[${quoted(key)}]`;
}

/** The same error, with where in the arguments it came up. */
export function placed(thrown: unknown, at: string): unknown {
  if (!(thrown instanceof QmError)) return thrown;
  const { code, hint, details } = thrown;
  return new QmError(code, `${at || "the arguments"}: ${thrown.message}`, {
    cause: thrown,
    ...(hint === undefined ? {} : { hint }),
    details: { ...details, at },
  });
}

export function fromData(at: string): QmError {
  return new QmError("invalid_arguments", `${at || "the arguments"}: a handle cannot be taken from data`, {
    hint: "Write the handle itself, such as note__12. What a note says is read with infospace__load.",
    details: { at },
  });
}
