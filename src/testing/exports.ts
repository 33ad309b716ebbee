export type { PlayedAnswer, PlayedCall, TestModel } from "./language-model.ts";
export { type ModelServer, startModelServer } from "./model-server.ts";
export { createScriptedModel, type ModelScript } from "./scripted-model.ts";
export {
  createSimulatedModel,
  type SimulatedBehavior,
  type SimulatedModelOptions,
  type SimulatedTask,
  simulatedBehaviors,
} from "./simulated-model.ts";
