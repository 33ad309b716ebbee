import type { Command } from "commander";
import type { CallerOptions } from "../../app/options.ts";
import type { Quartermaster } from "../../app/quartermaster.ts";
import { escapeUnsafe, formatCount } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import { type SurfaceKind, surfaceKinds } from "../../core/surface-choice.ts";
import { countToolTokens, loadTokenCounter } from "../../surface/open-surface.ts";
import type { PromptSection } from "../../surface/router-prompt.ts";
import { type Context, toCallerOptions, withWorkspace } from "../context.ts";
import { examples } from "../option-parsers.ts";

type PromptFlags = Readonly<{ query?: string }>;

export function addPromptCommand(program: Command, context: Context): void {
  program
    .command("prompt")
    .summary("show the system prompt of an actor, and what it costs")
    .description(
      "Show the system prompt that an actor's model gets, the tokens (o200k) of each section, and what the prompt and the tools would cost on each surface.",
    )
    .option("--query <text>", "the user's message, for the shortlist of search.hints")
    .addHelpText(...examples("qm prompt", "qm prompt --actor reviewer", 'qm prompt --query "rename a file" --json'))
    .action((flags: PromptFlags) =>
      withWorkspace(context, "looking", ({ quartermaster, config }) => {
        if (flags.query !== undefined && !config.search.hints.enabled)
          context.out.note("qm: --query has no effect: search.hints.enabled is false");
        return showPrompt(context, quartermaster, flags);
      }),
    );
}

async function showPrompt({ out, globals }: Context, quartermaster: Quartermaster, { query }: PromptFlags) {
  const caller = toCallerOptions(globals);
  const asked = { ...omitUndefined({ query }), tokens: true };
  const { text, prefix, sections, firstTool } = await quartermaster.prompt(caller, asked);
  const costs: readonly SurfaceCost[] = await Promise.all(
    surfaceKinds.map((kind) => measureSurface(quartermaster, caller, { ...asked, kind })),
  );
  const tokens = sumTokens(sections);
  if (out.isJson)
    return out.json(omitUndefined({ text, prefix, sections, tokens, first_tool: firstTool, surfaces: costs }));
  out.line(escapeUnsafe(text), "");
  const isFixed = (title: string) => prefix.includes(`## ${title}\n`);
  out.table(
    ["section", "tokens", "changes"],
    [
      ...sections.map(({ title, tokens = 0 }) => [title, String(tokens), isFixed(title) ? "rarely" : "often"]),
      ["total", String(tokens), ""],
    ],
  );
  out.line();
  const rows = costs.map((cost) =>
    "problem" in cost
      ? [cost.kind, "", "", "", "", cost.problem]
      : [cost.kind, ...[cost.tools, cost.tool_tokens, cost.prompt_tokens, cost.tokens].map(String), cost.remark],
  );
  out.table(["surface", "tools", "tool tokens", "prompt tokens", "total", ""], rows);
  if (firstTool !== undefined)
    out.line("", out.dim(`The model must call ${firstTool} first: the actor's tier is light.`));
}

type SurfaceCost =
  | { readonly kind: SurfaceKind; readonly problem: string }
  | {
      readonly kind: SurfaceKind;
      /** What `auto` is now. */
      readonly shown_as: string;
      readonly tools: number;
      readonly tool_tokens: number;
      readonly prompt_tokens: number;
      readonly tokens: number;
      readonly remark: string;
    };
