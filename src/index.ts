/** The public API. What is exported here is promised; use named exports only. */

export { defineAction, defineResource } from "./catalog/define.ts";
export type { Provider } from "./catalog/provider.ts";
export type {
  Action,
  ApprovalRule,
  ArgumentTransform,
  CallContext,
  Example,
  Handler,
  JsonSchema,
  Readiness,
} from "./core/action.ts";
export type { Caller } from "./core/caller.ts";
export { type Content, type ContentBlock, WithContent } from "./core/content.ts";
export type { AskedQuestion, AskedQuestions, Dialogue, LogLine, ProgressUpdate } from "./core/dialogue.ts";
export { type Effect, effects } from "./core/effect.ts";
export { type ErrorCode, errorCodes, type Problem, QmError } from "./core/errors.ts";
export { type EventType, eventShapes, type NewEvent } from "./core/events.ts";
export type { Json, JsonObject } from "./core/json.ts";
export { type ActionName, actionName, categoryOf, entryOf, parseActionName } from "./core/names.ts";
export type { Outcome, OutcomeStatus } from "./core/outcome.ts";
export type { Runtime } from "./core/runtime.ts";
export { type SearchType, searchTypes } from "./core/search-type.ts";
export type { InputSchema } from "./core/standard-schema.ts";
export type { ActivationScope, Selection, SurfaceChoice, SurfaceKind } from "./core/surface-choice.ts";
export type { Embeddings } from "./discovery.ts";
export type { RunLimits } from "./invoke/run.ts";
export type { ChainHead, EventQuery, StoredEvent } from "./ledger/event-store.ts";
export type { ChainReport, VerifyOptions } from "./ledger/verify.ts";
export type { SecretStore } from "./mcp/secret-store.ts";
export type { ServerState, Servers, ServerView } from "./mcp/servers/servers.ts";
export type { CallerOptions, InvokeOptions, QuartermasterOptions, SearchSettings } from "./options.ts";
export type { ActorConfig } from "./policy/actors.ts";
export type { BudgetLimits, Budgets } from "./policy/budget.ts";
export type { Explanation } from "./policy/explain.ts";
export type { Gate } from "./policy/gates.ts";
export type { PolicyOptions } from "./policy/policy.ts";
export type { TagRule } from "./policy/tag-rules.ts";
export type { ToolPolicy } from "./policy/tool-policy.ts";
export type { ToolVisibilityPolicy } from "./policy/visibility.ts";
export { type FileProviderOptions, fileProvider } from "./providers/file/provider.ts";
export { createQuartermaster, type InventoryItem, type Quartermaster } from "./quartermaster.ts";
export type { ToolRegistration } from "./registry/tool.ts";
export type { Directory, DirectoryGroup, DirectoryOptions } from "./search/directory.ts";
export type { EmbedderChoice } from "./search/embedders/create.ts";
export type { Embedder } from "./search/embedders/embedder.ts";
export type { BuildOptions, BuildReport, SemanticStatus } from "./search/semantic/semantic-index.ts";
export type { Answer, Surface, SurfaceTool } from "./surface/surface.ts";
export type { ActionDescription } from "./surface/universal/describe-action.ts";
export type { ActionList, ListedAction, ListQuery } from "./surface/universal/list-actions.ts";
export type { ActionSearch, FoundAction, FoundActions } from "./surface/universal/search-actions.ts";
export { openWorkspace, type Workspace, type WorkspaceOptions } from "./workspace.ts";
