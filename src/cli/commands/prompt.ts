import type { Command } from "commander";
import type { CallerOptions } from "../../app/options.ts";
import type { PromptOptions } from "../../app/prompts.ts";
import type { Quartermaster } from "../../app/quartermaster.ts";
import { escapeUnsafe } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import { type SurfaceKind, surfaceKinds } from "../../core/surface-choice.ts";
import type { PromptSection } from "../../surface/system-prompt.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace, toCallerOptions } from "../context.ts";
import { examples } from "../option-parsers.ts";

type PromptFlags = Readonly<{ query?: string }>;

export function addPromptCommand(program: Command, context: Context): void {
  program
    .command("prompt")
    .summary("show the system prompt of an actor and what it costs")
    .description(
      "Show the system prompt of an actor's model, the tokens (o200k) of its sections, and what prompt and tools would cost on each surface.",
    )
    .option("--query <text>", "the user's message, for the shortlist of search.hints")
    .addHelpText(...examples("qm prompt", "qm prompt --actor reviewer", "qm prompt --query 'rename a file' --json"))
    .action(inWorkspace(context, "looking", showPrompt));
}

async function showPrompt({ out, globals }: Context, workspace: Workspace, { query }: PromptFlags): Promise<void> {
  const { quartermaster, config } = workspace;
  if (query !== undefined && !config.search.hints.enabled)
    out.note("qm: --query has no effect, because search.hints.enabled is false");
  const caller = toCallerOptions(globals);
  const options = omitUndefined({ query, tokens: true });
  const { text, prefix, sections, firstTool } = await quartermaster.prompt(caller, options);
  const tokens = sumTokens(sections);
  const surfaces = await Promise.all(surfaceKinds.map((kind) => measureSurface(quartermaster, caller, kind, options)));
  if (out.isJson) return out.json(omitUndefined({ text, prefix, sections, tokens, first_tool: firstTool, surfaces }));

  out.line(escapeUnsafe(text), "");
  const rows = sections.map((section) => [
    section.title,
    String(section.tokens),
    prefix.includes(section.text) ? "constant" : "of this turn",
  ]);
  out.table(["section", "tokens", ""], [...rows, ["total", String(tokens), ""]]);
  out.line();
  const own = config.actors[caller.actor ?? "default"]?.surface?.kind ?? config.surface.kind;
  out.table(
    ["surface", "tools", "tool tokens", "prompt tokens", "total", ""],
    surfaces.map((each) => formatSurfaceRow(each, own)),
  );
  if (firstTool !== undefined) out.line("", `The model must call ${firstTool} first, because its tier is light.`);
}

interface SurfaceCost {
  readonly surface: SurfaceKind;
  /** Why it cannot be used. Then it costs nothing. */
  readonly problem?: string;
  /** The surface that `auto` is now. */
  readonly shows?: string;
  readonly tools: number;
  readonly tool_tokens: number;
  readonly prompt_tokens: number;
  readonly tokens: number;
}

async function measureSurface(
  quartermaster: Quartermaster,
  caller: CallerOptions,
  kind: SurfaceKind,
  options: PromptOptions,
): Promise<SurfaceCost> {
  // Loads the table of tokens, which is large.
  const { countToolTokens, loadTokenCounter } = await import("../../surface/open-surface.ts");
  try {
    const { kind: shows, tools } = await quartermaster.surface(caller, kind);
    const { sections } = await quartermaster.prompt(caller, { ...options, kind });
    const count = await loadTokenCounter();
    const toolTokens = tools.reduce((sum, tool) => sum + countToolTokens(tool, count), 0);
    const promptTokens = sumTokens(sections);
    const all = { tool_tokens: toolTokens, prompt_tokens: promptTokens, tokens: toolTokens + promptTokens };
    return { surface: kind, ...(kind === "auto" ? { shows } : {}), tools: tools.length, ...all };
  } catch (thrown) {
    if (!(thrown instanceof QmError) || thrown.code !== "search_off") throw thrown;
    return { surface: kind, problem: thrown.message, tools: 0, tool_tokens: 0, prompt_tokens: 0, tokens: 0 };
  }
}

function formatSurfaceRow(cost: SurfaceCost, own: SurfaceKind): readonly string[] {
  const { surface, problem, shows, tools, tool_tokens, prompt_tokens, tokens } = cost;
  if (problem !== undefined) return [surface, "", "", "", "", problem];
  const remarks = [...(shows === undefined ? [] : [`shows ${shows}`]), ...(surface === own ? ["the actor's own"] : [])];
  return [surface, ...[tools, tool_tokens, prompt_tokens, tokens].map(String), remarks.join(", ")];
}

const sumTokens = (sections: readonly PromptSection[]): number =>
  sections.reduce((sum, { tokens = 0 }) => sum + tokens, 0);
