import type { Command } from "commander";
import { escapeUnsafe, formatCount } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { getOwn, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import { didYouMean } from "../../core/nearest.ts";
import type { Workspace } from "../../workspace/workspace.ts";
import { type Context, inWorkspace } from "../context.ts";
import { examples } from "../option-parsers.ts";
import { showProgress } from "../terminal.ts";

export function addModelsCommand(program: Command, context: Context): void {
  const models = program
    .command("models")
    .helpCommand(false)
    .summary("list and test the language models")
    .description("Look at the language models of the configuration. Skills that ask a model use `default`.")
    .addHelpText(...examples("qm models list", "qm models test", "qm models test fast --json"));

  models
    .command("list")
    .summary("list the models, without asking any")
    .description("List the configured models and whether their keys have values. No model is asked.")
    .action(inWorkspace(context, "ledger", listModels));

  models
    .command("test")
    .summary("send one small request to a model")
    .description(
      "Send one small request to a model, and show how long it took. It may cost money; no budget is charged.",
    )
    .argument("[name]", "the model's name in the configuration", "default")
    .addHelpText(...examples("qm models test", "qm models test fast --json"))
    .action(inWorkspace(context, "ledger", testModel));
}

async function listModels({ out }: Context, { config, models }: Workspace): Promise<void> {
  const listed = Object.entries(config.models).map(([name, { provider, model, baseUrl, price }]) => {
    const problem = getOwn(models, name)?.findProblem?.();
    return omitUndefined({ name, provider, model, base_url: baseUrl, price, problem });
  });
  if (out.isJson || listed.length === 0)
    return out.answer({ models: listed }, "No model is configured. Add models.default to quartermaster.yaml.");
  const rows = listed.map(({ name, provider, model, price, problem }) => {
    const cost = price === undefined ? "unknown" : `${price.input} / ${price.output}`;
    return [name, provider, model, cost, problem ?? "ready"];
  });
  out.table(["name", "provider", "model", "price in / out", "state"], rows);
}

const REQUEST = { messages: [{ role: "user", text: "Answer with the word ok." }], maxOutputTokens: 64 } as const;

async function testModel({ out, io }: Context, { models }: Workspace, name: string): Promise<void> {
  const model = getOwn(models, name);
  if (model === undefined) {
    const message = `no model ${quoteName(name)} is configured${didYouMean(name, Object.keys(models))}`;
    const isEmpty = Object.keys(models).length === 0;
    const hint = isEmpty ? `Add models.${name} to quartermaster.yaml.` : "`qm models list` shows the names.";
    throw new QmError("not_found", message, { hint });
  }
  const started = performance.now();
  const stopProgress = showProgress(io.stderr, `the request to ${name}`);
  const answer = await model.generate(REQUEST, io.signal).finally(stopProgress);
  const { message, finish, inputTokens, outputTokens, attempts = 1 } = answer;
  const durationMs = Math.round(performance.now() - started);
  const facts = { name, model: model.name, text: message.text, finish, duration_ms: durationMs, attempts };
  const tokens = `${formatCount(inputTokens, "token")} read, ${outputTokens} written`;
  out.answer(
    { ...facts, input_tokens: inputTokens, output_tokens: outputTokens },
    `${escapeUnsafe(model.name)} answered in ${durationMs} ms: ${tokens}.`,
  );
}
