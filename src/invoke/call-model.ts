import type { Caller } from "../core/caller.ts";
import { type ErrorCode, getErrorMessage, QmError } from "../core/errors.ts";
import { omitUndefined } from "../core/json.ts";
import type { CallModel, Model, ModelAnswer, ModelPrice } from "../core/model.ts";
import { quoteName } from "../core/names.ts";
import type { Runtime } from "../core/runtime.ts";
import type { BudgetMeter } from "./budget-meter.ts";
import type { CallRecord } from "./call-record.ts";

interface CallModelParts {
  readonly model: Model;
  readonly caller: Caller;
  readonly meter: Pick<BudgetMeter, "checkModel" | "addModelUsage">;
  readonly record: Pick<CallRecord, "modelCalled">;
  readonly runtime: Pick<Runtime, "elapsed">;
  readonly onProblem: (problem: string) => void;
}

/** Creates the model of one call's handler. Every request is charged to the caller's budgets and recorded. */
export function createCallModel(
  { model, caller, meter, record, runtime, onProblem }: CallModelParts,
  getSignal: () => AbortSignal,
) {
  const { name, price } = model;
  const callModel: CallModel = async (request, onText) => {
    const signal = getSignal();
    signal.throwIfAborted();
    const started = runtime.elapsed();
    let attempts = 0;
    try {
      const refused = await meter.checkModel(caller, price !== undefined);
      if (refused !== undefined)
        throw new QmError("budget_exceeded", refused.reason, { hint: "Finish with what you have." });
      attempts = 1;
      const answer = await model.generate(request, signal, onText);
      await charge(answer);
      const cost = price && computeCost(answer, price);
      record.modelCalled(request, { ...describeRequest(answer.attempts ?? 1), ...omitUndefined({ cost }), answer });
      return answer;
    } catch (thrown) {
      const error = toModelError(thrown, signal);
      const sent = error.details.attempts;
      const code: ErrorCode = error.code;
      record.modelCalled(request, { ...describeRequest(typeof sent === "number" ? sent : attempts), code });
      throw error;
    }

    function describeRequest(attempts: number) {
      return { model: name, attempts, durationMs: Math.max(0, runtime.elapsed() - started) };
    }
  };
  return callModel;

  async function charge(answer: ModelAnswer): Promise<void> {
    const tokens = answer.inputTokens + answer.outputTokens;
    try {
      await meter.addModelUsage(caller, { tokens, cost: price === undefined ? 0 : computeCost(answer, price) });
    } catch (thrown) {
      onProblem(`the tokens of the language model ${quoteName(name)} could not be counted: ${getErrorMessage(thrown)}`);
    }
  }

  function toModelError(thrown: unknown, signal: AbortSignal): QmError {
    if (thrown instanceof QmError) return thrown;
    if (signal.aborted && signal.reason instanceof QmError) return signal.reason;
    const message = `the language model ${quoteName(name)} failed: ${getErrorMessage(thrown)}`;
    return new QmError("model_failed", message, { hint: "Try again later." });
  }
}

export const computeCost = ({ inputTokens, outputTokens }: ModelAnswer, { input, output }: ModelPrice): number =>
  (inputTokens * input + outputTokens * output) / 1_000_000;
