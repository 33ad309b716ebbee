import { z } from "zod";
import { defineAction } from "../../../catalog/define.ts";
import type { Action } from "../../../core/action.ts";
import { WithContent } from "../../../core/content.ts";
import { QmError } from "../../../core/errors.ts";
import { SEPARATOR } from "../../../core/names.ts";
import { waitingFacts } from "../../../core/outcome.ts";
import { MCP } from "../tool-actions.ts";

/** Calls a server's tool by its id: the same call as of the action itself, through the same door. */
export function callToolAction(): Action {
  return defineAction(MCP, {
    entry: "call_tool",
    description: "Call a tool of an MCP server by its id, `<server>__<tool>`.",
    // What it does is what the tool does, and that is decided when the tool is called.
    effect: "external",
    timeoutMs: 10 * 60_000,
    input: z.strictObject({
      tool: z.string().min(1).describe("As mcp__list_tools lists it: `<server>__<tool>`."),
      tool_args: z.record(z.string(), z.unknown()).default({}).describe("The tool's own arguments."),
    }),
    examples: [{ args: { tool: "github__create_issue", tool_args: { title: "It is broken" } } }],
    async run({ tool, tool_args }, { invoke }) {
      const prefix = `${MCP}${SEPARATOR}`;
      const outcome = await invoke(tool.startsWith(prefix) ? tool : `${prefix}${tool}`, tool_args);
      if (outcome.status === "done")
        return outcome.content === undefined ? outcome.data : new WithContent(outcome.data, outcome.content);
      if (outcome.status === "waiting")
        return { status: outcome.status, action: outcome.action, ...waitingFacts(outcome.reason, outcome.approval) };
      const { code, error, hint, ...details } = outcome.error;
      throw new QmError(code, error, { ...(hint === undefined ? {} : { hint }), details, content: outcome.content });
    },
  });
}
