import { QmError } from "../core/errors.ts";
import { quoted } from "../core/names.ts";
import type { ResourceKind } from "./handle.ts";

export function notAHandle(asked: string): QmError {
  return new QmError("not_found", `${quoted(asked)} is neither a handle nor the name of something here`, {
    hint: "A handle is note__<number> or collection__<number>, as the answer that kept it has it. infospace__search-collections and infospace__search-notes with an empty query list the newest.",
    details: { handle: asked },
  });
}

export function noVersion(handle: string, asked: number, present: number): QmError {
  return new QmError("not_found", `${handle} has no version ${asked}`, {
    hint: `It is at version ${present}; those before it are counted from 1.`,
    details: { handle, version: present },
  });
}

export function wrongKind(handle: string, wanted: ResourceKind): QmError {
  return new QmError("invalid_arguments", `${handle} is not a ${wanted}`, {
    hint:
      wanted === "collection"
        ? "Make a collection of it with infospace__split or infospace__create-collection."
        : "Take a note of the collection, or make one of it with infospace__flatten.",
  });
}

export function notFound(handle: string): QmError {
  return new QmError("not_found", `there is no ${quoted(handle)} here`, {
    hint: "What is not saved is forgotten after a while. infospace__search-collections and infospace__search-notes find what is there; or make it again.",
    details: { handle },
  });
}
