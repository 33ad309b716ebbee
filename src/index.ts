/** The public API. Everything exported here is stable. */

export type {
  ActorEnvelope,
  ActorEvent,
  ActorTurnState,
  AnswerPart,
  CallActorOptions,
} from "./actor/envelope.ts";
export type { OpenTurnView, SessionChoice, Sessions, SessionView } from "./actor/session-service.ts";
export type { MessagePage, SessionMessage, SessionOwner, SessionQuery, SessionSummary } from "./actor/session-store.ts";
export type { InventoryItem } from "./app/action-summaries.ts";
export { findCoreSkills } from "./app/core-skills.ts";
export type { Embeddings } from "./app/discovery.ts";
export type { CallerOptions, InvokeOptions, QuartermasterOptions, SearchSettings } from "./app/options.ts";
export type { Peers, PeerView } from "./app/peer-system.ts";
export type { PromptOptions } from "./app/prompts.ts";
export { createQuartermaster, type Quartermaster } from "./app/quartermaster.ts";
export {
  type Approval,
  type ApprovalAnswer,
  type ApprovalQuery,
  type ApprovalState,
  type Approvals,
  type ApprovalView,
  type Approver,
  type AskPerson,
  approvalStates,
  type RecordedAnswer,
} from "./approval/approval.ts";
export type { FilePart, FilePortion, FilePortionOptions } from "./approval/file-portion.ts";
export type { ApprovalRequestPart, SuspendedTurn, Turn, WaitingCallView } from "./approval/turn.ts";
export type { ResumedTurn, ResumeOptions, TurnCallResult, Turns } from "./approval/turn-service.ts";
export type { TurnEnd, TurnQuery, TurnState, TurnView, WaitingCall } from "./approval/turn-store.ts";
export {
  defineCheckedAction as defineAction,
  defineResource,
  type PendingSource,
  type Provider,
} from "./catalog/define-action.ts";
export type { ToolRegistration } from "./catalog/tool-registry.ts";
export type {
  Action,
  ActionOrigin,
  ApprovalDecision,
  ApprovalQuestion,
  ApprovalRule,
  ArgumentTransform,
  CallContext,
  Example,
  Handler,
  JsonSchema,
  Preview,
  Readiness,
} from "./core/action.ts";
export { type Effect, effects } from "./core/action.ts";
export type {
  AskedQuestion,
  AskedQuestions,
  Caller,
  Dialogue,
  LogLine,
  ProgressUpdate,
  SayListener,
} from "./core/caller.ts";
export { type ErrorCode, errorCodes, type Problem, QmError } from "./core/errors.ts";
export { eventShapes } from "./core/event-shapes.ts";
export type { EventType, NewEvent } from "./core/events.ts";
export { type Content, type ContentBlock, Streamed, WithContent } from "./core/handler-result.ts";
export type { Json, JsonObject } from "./core/json.ts";
export type {
  CallModel,
  Model,
  ModelAnswer,
  ModelAnswerMessage,
  ModelMessage,
  ModelPrice,
  ModelRequest,
  ModelTool,
  ModelToolCall,
  ModelToolResult,
} from "./core/model.ts";
export { type ActionName, actionName, getCategory, getEntry, parseActionName } from "./core/names.ts";
export type { ArgumentForms, NormalForm } from "./core/normalize-arguments.ts";
export {
  isToolDenied,
  type Outcome,
  type OutcomeStatus,
  type ResultReference,
  type WaitingApproval,
} from "./core/outcome.ts";
export type { Duration, Runtime } from "./core/runtime.ts";
export type { InputSchema } from "./core/standard-schema.ts";
export {
  type ActivationScope,
  type ModelTier,
  type SearchType,
  type SurfaceChoice,
  type SurfaceKind,
  type SurfaceSelection,
  searchTypes,
} from "./core/surface-choice.ts";
export type { Span, SpanFacts, SpanKind, TraceCarrier, Tracer } from "./core/tracing.ts";
export type { DirectoryGroup } from "./core/world.ts";
export { type AnchorStream, type Anchors, createAnchorStream } from "./distribution/anchors.ts";
export {
  AnnotatedRecord,
  type Annotations,
  annotate,
  type Composition,
  type Destination,
  type FieldAnnotation,
} from "./distribution/annotated-record.ts";
export type { Deliver, DeliveryFacts, DestinationConfig, Destinations } from "./distribution/destination-config.ts";
export { findMissingValues } from "./distribution/view.ts";
export type { ImportResult } from "./infospace/import-writer.ts";
export type {
  Collection,
  CollectionItem,
  Note,
  NoteFacts,
  NoteFormat,
  NoteOrigin,
  NoteVersion,
  NoteVisibility,
} from "./infospace/note.ts";
export type { NoteEntry, NotesPage, NotesPageQuery, NotesQuery } from "./infospace/note-list.ts";
export type { ItemsQuery, NoteVersionEntry, PartQuery } from "./infospace/note-reader.ts";
export type { NoteHit, Notes, NotesExport, NotesSearchOptions } from "./infospace/notes.ts";
export type { NoteSearchResult, NoteSearchType } from "./infospace/search/note-search.ts";
export type { RunLimits } from "./invoke/runner.ts";
export type { ChainHead, EventQuery, StoredEvent } from "./ledger/event-store.ts";
export type { PruneOptions, PruneReport } from "./ledger/prune.ts";
export type { ChainReport, VerifyOptions } from "./ledger/verify-chains.ts";
export type { McpServers, ServerState, ServerView } from "./mcp/provider/mcp-servers.ts";
export type { SecretStore } from "./mcp/secret-store.ts";
export { type AiSdkModel, type AiSdkModelSettings, createAiSdkModel } from "./model/ai-sdk-model.ts";
export type { ActorConfig } from "./policy/actors.ts";
export type { ApprovalSettings } from "./policy/approval-rules.ts";
export type { BudgetLimits, Budgets } from "./policy/budget.ts";
export type { Explanation } from "./policy/explain.ts";
export type { PolicyOptions } from "./policy/policy.ts";
export type { RuleProblem } from "./policy/rule-problems.ts";
export type { TagRule } from "./policy/tag-rules.ts";
export type { Gate, ToolPolicy, ToolVisibilityPolicy } from "./policy/tool-policy.ts";
export type { WorldConfig } from "./policy/worlds.ts";
export { type FileProviderOptions, fileProvider } from "./providers/file/file-provider.ts";
export type { MethodRunQuery, MethodRunState } from "./providers/skill/method/method-run.ts";
export type { MethodRunView, Methods } from "./providers/skill/method/method-runs.ts";
export type { ReplayQuery } from "./replay/read-recorded.ts";
export type { Rehearsal, RehearsalOptions } from "./replay/rehearsal.ts";
export type { Replay, ReplayOptions } from "./replay/replay.ts";
export type { ReplayDifference, ReplayedCall, ReplayOutcome, ReplayReport } from "./replay/replay-report.ts";
export type { RehearsedCall, ScriptedCall } from "./replay/scripted-call.ts";
export type { RoutableEvent, RoutedEvent } from "./routing/event.ts";
export type { Router } from "./routing/router.ts";
export type { RouteRule } from "./routing/rules.ts";
export type { Directory, DirectoryOptions } from "./search/directory.ts";
export type { EmbedderChoice } from "./search/embedders/create-embedder.ts";
export type { Embedder } from "./search/embedders/embedder.ts";
export type { BuildOptions, BuildReport, SemanticStatus } from "./search/semantic/semantic-index.ts";
export type { Surface, SurfaceAnswer, SurfaceTool } from "./surface/surface.ts";
export type { PromptSection, SystemPrompt } from "./surface/system-prompt.ts";
export type { ActionDescription, ActionList, ListedAction, ListQuery } from "./surface/universal/browse-actions.ts";
export type { ActionSearch, FoundAction, FoundActions } from "./surface/universal/search-actions.ts";
export { openWorkspace, type Workspace, type WorkspaceOptions } from "./workspace/workspace.ts";
