import { expect, test } from "vitest";
import { describeModelState, requireModel } from "./skill-action.ts";

test("a skill that asks a model says why it cannot", () => {
  const reason = "no language model is configured: add models.default to quartermaster.yaml";
  const without = describeModelState({});
  let problem: string | undefined = "the secret KEY is missing";
  const configured = describeModelState({ model: { findProblem: () => problem } });

  expect([without.readiness(), without.readinessReason()]).toEqual(["unavailable", reason]);
  expect([configured.readiness(), configured.readinessReason()]).toEqual(["unavailable", problem]);
  problem = undefined;
  expect([configured.readiness(), configured.readinessReason()]).toEqual(["ready", undefined]);
  expect(() => requireModel({})).toThrow(expect.objectContaining({ code: "no_model", message: reason }));
});
