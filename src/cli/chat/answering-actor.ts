import { QmError } from "../../core/errors.ts";
import { getOwn } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";
import type { Workspace } from "../../workspace/workspace.ts";

/** An actor whose model can answer. */
export interface AnsweringActor {
  readonly actor: string;
  /** As the model's server names it. */
  readonly model: string;
}

const EXAMPLE = (name: string) => `models:
  ${name}:
    provider: openai-compatible
    base_url: http://127.0.0.1:11434/v1
    model: qwen3:8b`;

/**
 * Throws as every use of the actor does, and `no_model` with the lines to add to the configuration if it has no model or
 * the key of the model is missing.
 */
export function requireAnsweringActor(workspace: Workspace, actor = "default"): AnsweringActor {
  const { quartermaster, config, models, configPath } = workspace;
  quartermaster.names({ actor });
  const { model: name = "default" } = getOwn(config.actors, actor) ?? {};
  const model = getOwn(models, name);
  if (model === undefined) {
    const file = configPath ?? "quartermaster.yaml (`qm init` writes one)";
    const message = `actor ${quoteName(actor)} has no model: models.${name} is not configured`;
    throw new QmError("no_model", message, { hint: `Add it to ${file}, for example:\n${EXAMPLE(name)}` });
  }
  const problem = model.findProblem?.();
  if (problem === undefined) return { actor, model: model.name };
  const message = `the model ${quoteName(name)} of actor ${quoteName(actor)} cannot be used: ${problem}`;
  const hint = `\`qm secrets set <name>\` stores a missing key. Then \`qm models test ${name}\` sends a request.`;
  throw new QmError("no_model", message, { hint });
}
