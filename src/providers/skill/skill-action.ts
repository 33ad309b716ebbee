import type { Action, CallContext } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { omitUndefined } from "../../core/json.ts";
import type { CallModel, Model } from "../../core/model.ts";
import type { ToolPrograms } from "./code/tool-programs.ts";
import type { MethodServices } from "./method/method-services.ts";
import type { Skill, SkillSnapshot } from "./skill-folders.ts";

/** The services that skills use to run. */
export interface SkillParts {
  /** The configured language model. Absent: there is none. */
  readonly model?: Pick<Model, "findProblem"> | undefined;
  readonly programs: ToolPrograms;
  readonly methods: MethodServices;
  /**
   * Reads a skill and checks that the caller may use exactly these files. A handler calls it first and reads nothing else.
   * Without a context it is not for a call but for a list of files: a skill that still needs approval is refused.
   */
  open(skill: Skill, context?: CallContext): Promise<SkillSnapshot>;
}

/** The fields of an action that are the same for all types of skills. */
export const describeSkill = ({ name, description, type, root }: Skill) => ({
  entry: name,
  description,
  tags: ["skill", type, root.source],
  source: root.source,
  type,
  ...omitUndefined({ world: root.world }),
});

const NO_MODEL = "no language model is configured: add models.default to quartermaster.yaml";

/** The state of a skill that asks the language model. */
export function describeModelState({
  model,
}: Pick<SkillParts, "model">): Required<Pick<Action, "readiness" | "readinessReason">> {
  const findProblem = () => (model === undefined ? NO_MODEL : model.findProblem?.());
  return { readiness: () => (findProblem() === undefined ? "ready" : "unavailable"), readinessReason: findProblem };
}

/** The language model for a call. Throws `no_model` if none is configured. */
export function requireModel({ model }: Pick<CallContext, "model">): CallModel {
  if (model !== undefined) return model;
  throw new QmError("no_model", NO_MODEL, { hint: "Use another action, and tell {user}." });
}
