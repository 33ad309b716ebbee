import {
  type AgentCard,
  type AgentSkill,
  type Artifact,
  type Message,
  type Part,
  Role,
  type Task,
  TaskState,
  type TaskStatus,
} from "@a2a-js/sdk";
import { ContentTypeNotSupportedError, RequestMalformedError } from "@a2a-js/sdk/errors";
import type { PeerTask, PeerTaskState, TaskMessage, TaskPart } from "../a2a/peer-task.ts";
import type { ExposedAction } from "../app/action-summaries.ts";
import { isRecord, type JsonObject } from "../core/json.ts";

const taskStates: Readonly<Record<PeerTaskState, TaskState>> = {
  working: TaskState.TASK_STATE_WORKING,
  input_required: TaskState.TASK_STATE_INPUT_REQUIRED,
  auth_required: TaskState.TASK_STATE_AUTH_REQUIRED,
  completed: TaskState.TASK_STATE_COMPLETED,
  failed: TaskState.TASK_STATE_FAILED,
  cancelled: TaskState.TASK_STATE_CANCELED,
  rejected: TaskState.TASK_STATE_REJECTED,
};

/** Our name of a state of the protocol. Undefined: no task of ours is ever in it. */
export const toTaskState = (state: TaskState): PeerTaskState | undefined =>
  (Object.keys(taskStates) as PeerTaskState[]).find((name) => taskStates[name] === state);

export const toStatus = (task: PeerTask, text = task.status): TaskStatus => ({
  state: taskStates[task.state],
  timestamp: task.changedAt,
  message:
    text === undefined
      ? undefined
      : toMessage(task, { id: `${task.id}-${task.version}`, role: "agent", parts: [{ text }] }),
});

export const toArtifact = ({ result }: Pick<PeerTask, "result">): Artifact => ({
  artifactId: "result",
  name: "result",
  description: "",
  parts: result.map(toPart),
  metadata: undefined,
  extensions: [],
});

/** `historyLength`: the most messages to include, the newest ones. */
export function toTask(task: PeerTask, historyLength?: number, hasArtifacts = true): Task {
  const { id, context, messages, result } = task;
  const shown = historyLength === undefined ? messages : historyLength > 0 ? messages.slice(-historyLength) : [];
  return {
    id,
    contextId: context,
    status: toStatus(task),
    artifacts: hasArtifacts && result.length > 0 ? [toArtifact(task)] : [],
    history: shown.map((message) => toMessage(task, message)),
    metadata: undefined,
  };
}

const toMessage = ({ id: taskId, context }: PeerTask, { id, role, parts }: TaskMessage): Message => ({
  messageId: id,
  contextId: context,
  taskId,
  role: role === "agent" ? Role.ROLE_AGENT : Role.ROLE_USER,
  parts: parts.map(toPart),
  metadata: undefined,
  extensions: [],
  referenceTaskIds: [],
});

function toPart(part: TaskPart): Part {
  const rest = { metadata: undefined, filename: "" };
  return "text" in part
    ? { content: { $case: "text", value: part.text }, mediaType: "text/plain", ...rest }
    : { content: { $case: "data", value: part.data }, mediaType: "application/json", ...rest };
}

/** A message of a client: the skill that it names, its text, and its other data. */
export interface ReceivedMessage {
  readonly message: TaskMessage;
  readonly skill?: string;
  /** The arguments of the named skill. */
  readonly args: JsonObject;
  readonly text: string;
  readonly data?: JsonObject;
}

const ID_FORM = /^[A-Za-z0-9._:-]{1,128}$/;

/** Throws `RequestMalformedError` for an id that is too long or has odd characters. */
export function requireId(id: string, what: string): string {
  if (ID_FORM.test(id)) return id;
  throw new RequestMalformedError(`${what} must have 1 to 128 letters, digits, ".", "_", ":" or "-"`);
}

/** Reads a message. Throws `RequestMalformedError`, and `ContentTypeNotSupportedError` for files. */
export function parseMessage({ messageId, parts: given }: Message): ReceivedMessage {
  const id = requireId(messageId, "message.messageId");
  if (given.length === 0) throw new RequestMalformedError("message.parts is empty");
  const parts = given.map(({ content }): TaskPart => {
    if (content?.$case === "text") return { text: content.value };
    if (content?.$case === "data") return { data: content.value ?? null };
    throw new ContentTypeNotSupportedError("only text and data parts are understood");
  });
  const records = parts.flatMap((part) => ("data" in part && isRecord(part.data) ? [part.data as JsonObject] : []));
  const named = records.find(({ skill }) => typeof skill === "string");
  const data = records.find((record) => record !== named);
  return {
    message: { id, role: "client", parts },
    ...(named === undefined ? {} : { skill: String(named.skill) }),
    args: isRecord(named?.arguments) ? (named.arguments as JsonObject) : {},
    text: parts.flatMap((part) => ("text" in part ? [part.text] : [])).join("\n\n"),
    ...(data === undefined ? {} : { data }),
  };
}

export interface CardFacts {
  readonly name: string;
  readonly description: string;
  readonly version: string;
}

export const toAgentCard = (facts: CardFacts, url: string, actions: readonly ExposedAction[]): AgentCard => ({
  ...facts,
  supportedInterfaces: [{ url, protocolBinding: "JSONRPC", protocolVersion: "1.0", tenant: "" }],
  provider: undefined,
  capabilities: { streaming: true, pushNotifications: false, extensions: [], extendedAgentCard: true },
  securitySchemes: {
    bearer: {
      scheme: { $case: "httpAuthSecurityScheme", value: { description: "", scheme: "Bearer", bearerFormat: "" } },
    },
  },
  securityRequirements: [{ schemes: { bearer: { list: [] } } }],
  defaultInputModes: ["text/plain", "application/json"],
  defaultOutputModes: ["text/plain", "application/json"],
  skills: actions.map(toSkill),
  signatures: [],
});

function toSkill({ name, description, tags, examples, localActor, signature }: ExposedAction): AgentSkill {
  const isActor = localActor !== undefined;
  const call = `Send a data part {"skill": ${JSON.stringify(name)}, "arguments": ...}. Arguments: ${signature}`;
  return {
    id: name,
    name: localActor ?? name,
    description: isActor ? description : `${description}\n${call}`,
    tags: tags.length === 0 ? ["tool"] : [...tags],
    examples: isActor ? [] : examples.map(({ args }) => JSON.stringify({ skill: name, arguments: args })),
    inputModes: isActor ? ["text/plain"] : ["application/json"],
    outputModes: ["text/plain", "application/json"],
    securityRequirements: [],
  };
}
