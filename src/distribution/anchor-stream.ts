import type { Caller } from "../core/caller.ts";
import { begunLength } from "./anchor-token.ts";
import type { Anchors } from "./anchors.ts";

/** Fills tokens in a text that comes in pieces, wherever it is cut. */
export interface AnchorStream {
  /** What can be shown now: a token that has only begun is held back. Rejects when the store cannot be read. */
  push(chunk: string): Promise<string>;
  /** What is left. */
  end(): Promise<string>;
  /** The tokens so far that are none of the caller's. */
  unknown(): readonly string[];
}

export function createAnchorStream(anchors: Pick<Anchors, "render">, caller: Caller): AnchorStream {
  let held = "";
  const unknown = new Set<string>();

  const shown = async (text: string): Promise<string> => {
    const rendered = await anchors.render(caller, text);
    for (const token of rendered.unknown) unknown.add(token);
    return rendered.text;
  };

  return {
    push(chunk) {
      const text = held + chunk;
      const ready = text.length - begunLength(text);
      held = text.slice(ready);
      return shown(text.slice(0, ready));
    },
    end() {
      const text = held;
      held = "";
      return shown(text);
    },
    unknown: () => [...unknown],
  };
}
