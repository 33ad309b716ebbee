/** The public API. What is exported here is promised; use named exports only. */

export {
  type Approval,
  type ApprovalAnswer,
  type ApprovalQuery,
  type ApprovalState,
  type Approver,
  approvalStates,
  type GivenAnswer,
  type ShownApproval,
} from "./approval/approval.ts";
export type { Approvals, AskPerson } from "./approval/approvals.ts";
export { defineAction, defineResource } from "./catalog/define.ts";
export type { Provider } from "./catalog/provider.ts";
export type {
  Action,
  ApprovalDecision,
  ApprovalQuestion,
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
export type { Duration } from "./core/duration.ts";
export { type Effect, effects } from "./core/effect.ts";
export { type ErrorCode, errorCodes, type Problem, QmError } from "./core/errors.ts";
export { type EventType, eventShapes, type NewEvent } from "./core/events.ts";
export type { Json, JsonObject } from "./core/json.ts";
export { type ActionName, actionName, categoryOf, entryOf, parseActionName } from "./core/names.ts";
export type { ArgumentForms, NormalForm } from "./core/normalize.ts";
export {
  isToolDenied,
  type KeptResult,
  type Outcome,
  type OutcomeStatus,
  type WaitingApproval,
} from "./core/outcome.ts";
export type { Runtime } from "./core/runtime.ts";
export { type SearchType, searchTypes } from "./core/search-type.ts";
export type { InputSchema } from "./core/standard-schema.ts";
export { Streamed } from "./core/streamed.ts";
export type { ActivationScope, Selection, SurfaceChoice, SurfaceKind } from "./core/surface-choice.ts";
export type { Span, SpanFacts, SpanKind, TraceCarrier, Tracer } from "./core/tracing.ts";
export type { Embeddings } from "./discovery.ts";
export { type AnchorStream, createAnchorStream } from "./distribution/anchor-stream.ts";
export type { Anchors } from "./distribution/anchors.ts";
export {
  AnnotatedRecord,
  type Annotations,
  annotate,
  type Composition,
  type FieldAnnotation,
} from "./distribution/annotated-record.ts";
export type { Destination } from "./distribution/destination.ts";
export type { Deliver, DeliveryFacts, DestinationConfig, Destinations } from "./distribution/destinations.ts";
export { validatedIn } from "./distribution/validated.ts";
export type { Imported } from "./infospace/import-writer.ts";
export type { Kept, NotesPage, NotesQuery, PageQuery } from "./infospace/listing.ts";
export type { Collection, Item, Note, NoteFacts, NoteFormat, NoteVersion, Origin, Reach } from "./infospace/note.ts";
export type { FoundKept, Notes, NotesExport, NotesSearch } from "./infospace/notes.ts";
export type { ItemsQuery, KeptVersion, PartQuery } from "./infospace/reading.ts";
export type { NoteSearchType, NotesFound } from "./infospace/search/note-search.ts";
export type { RunLimits } from "./invoke/run.ts";
export type { ChainHead, EventQuery, StoredEvent } from "./ledger/event-store.ts";
export type { ChainReport, VerifyOptions } from "./ledger/verify.ts";
export type { SecretStore } from "./mcp/secret-store.ts";
export type { ServerState, Servers, ServerView } from "./mcp/servers/servers.ts";
export type { CallerOptions, InvokeOptions, QuartermasterOptions, SearchSettings } from "./options.ts";
export type { ActorConfig } from "./policy/actors.ts";
export type { ApprovalSettings } from "./policy/approvers.ts";
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
export type { ReplayQuery } from "./replay/read-recorded.ts";
export type { Rehearsal, RehearsalOptions } from "./replay/rehearse.ts";
export type { Replay, ReplayOptions } from "./replay/replay.ts";
export type { Difference, Fate, ReplayedCall, ReplayReport } from "./replay/report.ts";
export type { MadeCall, ScriptedCall } from "./replay/scripted.ts";
export type { RoutableEvent, RoutedEvent } from "./routing/event.ts";
export type { Router } from "./routing/router.ts";
export type { RouteRule } from "./routing/rules.ts";
export type { Directory, DirectoryGroup, DirectoryOptions } from "./search/directory.ts";
export type { EmbedderChoice } from "./search/embedders/create.ts";
export type { Embedder } from "./search/embedders/embedder.ts";
export type { BuildOptions, BuildReport, SemanticStatus } from "./search/semantic/semantic-index.ts";
export type { Answer, Surface, SurfaceTool } from "./surface/surface.ts";
export type { ActionDescription } from "./surface/universal/describe-action.ts";
export type { ActionList, ListedAction, ListQuery } from "./surface/universal/list-actions.ts";
export type { ActionSearch, FoundAction, FoundActions } from "./surface/universal/search-actions.ts";
export type { ApprovalRequestPart, SuspendedTurn, Turn } from "./turn/held-turn.ts";
export type { ShownTurn } from "./turn/shown-turn.ts";
export type { TurnEnd, TurnQuery, TurnState, WaitingCall } from "./turn/turn-store.ts";
export type { CallResult, Resumed, ResumeOptions, Turns } from "./turn/turns.ts";
export { openWorkspace, type Workspace, type WorkspaceOptions } from "./workspace.ts";
