import type { Command } from "commander";
import type { Explanation } from "../../index.ts";
import { type Context, callerOf, withWorkspace } from "../context.ts";
import { exitCodes } from "../exit-codes.ts";
import { whatToChange } from "../explain-change.ts";
import { requireListed } from "../kept-not-listed.ts";
import { examples } from "../options.ts";
import type { Output } from "../output.ts";
import { oneLine, plain } from "../text.ts";

export function addExplain(program: Command, context: Context): void {
  program
    .command("explain")
    .summary("show why an action is there for a caller, or is not")
    .description("Show what each layer of the policy says about an action, and what to change.")
    .argument("<action>", "its full name, whether the caller sees it or not")
    .addHelpText("after", examples("qm explain file__write", "qm explain file__write --actor reviewer"))
    .action(async (action: string) => {
      await requireListed(action);
      await withWorkspace(context, "looking", ({ quartermaster, configPath }) => {
        const explanation = quartermaster.explain(action, callerOf(context.globals));
        if (!explanation.exists) context.end(exitCodes.unknown);
        if (context.out.isJson) context.out.json(explanation);
        else show(context.out, explanation, configPath);
      });
    });
}

function show(out: Output, explanation: Explanation, configPath: string | undefined): void {
  const { exists, nearest, layers, because } = explanation;
  const action = oneLine(explanation.action);
  if (!exists) {
    out.line(`${out.bold(action)} does not exist, for anybody.`);
    out.line(nearest === undefined ? "`qm list` shows the names." : `Did you mean ${oneLine(nearest)}?`);
    return;
  }
  out.line(`${out.bold(action)} for actor ${oneLine(explanation.actor)}: ${verdict(out, explanation)}`);
  out.line();
  out.table(
    ["layer", "says", "because of"],
    layers.map(({ layer, says, rule = "" }) => [
      { text: layer, paint: layer === because?.layer ? out.bold : (text) => text },
      { text: says, paint: says === "nothing" ? out.dim : says === "ask" ? out.warn : out.bad },
      rule,
    ]),
  );
  out.line();
  for (const change of whatToChange(explanation, configPath)) out.line(plain(change));
}

function verdict(out: Output, { visible, decision }: Explanation): string {
  if (!visible) return out.bad("hidden, as if it did not exist");
  switch (decision) {
    case "allow":
      return out.good("allowed");
    case "ask":
      return out.warn("seen, but a person must agree to each call");
    default:
      return out.bad("seen, but denied");
  }
}
