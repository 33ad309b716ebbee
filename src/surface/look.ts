import type { Caller } from "../core/caller.ts";
import type { Problem } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { ownArgs, prepareArgs } from "../invoke/arguments.ts";
import { type Answer, answering, type Counter, type Surface, type SurfaceTool } from "./surface.ts";

/** What looking around found; `text` where a model reads something else than the JSON of it. */
export interface Told {
  readonly data: unknown;
  readonly text?: string;
}

/** How a surface answers tool calls that do not pass the door. */
export interface Looking {
  /** Checks the arguments, does the work, and writes down that it was asked for. Never rejects. */
  look(tool: SurfaceTool, args: unknown, work: (prepared: JsonObject) => Told | Promise<Told>): Promise<Answer>;
  /** Writes down what is answered. What cannot be written is not answered either. */
  noted(tool: SurfaceTool, args: unknown, answer: Answer): Answer;
}

export function lookingAround(counter: Counter, caller: Caller, surface: Surface["kind"]): Looking {
  const noted = ({ name }: SurfaceTool, args: unknown, answer: Answer): Answer => {
    const code = answer.ok ? {} : { code: (answer.data as Problem).code };
    const note = { surface, tool: name, args, ok: answer.ok, ...code };
    const written = answering(() => counter.called(caller, note));
    return written.ok ? answer : written;
  };
  return {
    noted,
    async look(tool, args, work) {
      let answer: Answer;
      try {
        const { data, text } = await work(preparedFor(tool, args));
        answer = text === undefined ? answering(() => data) : { ok: true, data, text };
      } catch (thrown) {
        answer = answering(() => {
          throw thrown;
        });
      }
      return noted(tool, args, answer);
    },
  };
}

/** Arguments that fit a tool of the surface itself. Throws `invalid_arguments`. */
export function preparedFor(tool: SurfaceTool, args: unknown): JsonObject {
  return prepareArgs({ ...tool, examples: [] }, ownArgs(args)).args;
}
