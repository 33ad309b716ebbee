import type { ListTasksRequest, ListTasksResponse, SendMessageRequest, StreamResponse, Task } from "@a2a-js/sdk";
import {
  A2AError,
  PushNotificationNotSupportedError,
  RequestMalformedError,
  TaskNotCancelableError,
  TaskNotFoundError,
  UnsupportedOperationError,
} from "@a2a-js/sdk/errors";
import type { A2ARequestHandler, ServerCallContext } from "@a2a-js/sdk/server";
import { hasTaskEnded, type PeerTask } from "../a2a/peer-task.ts";
import type { PeerTasks, TaskRequest } from "../a2a/task-service.ts";
import type { Peers } from "../app/peer-system.ts";
import type { Caller } from "../core/caller.ts";
import { readHops, toPeerUser } from "../core/delegation.ts";
import { getErrorMessage, QmError } from "../core/errors.ts";
import type { JsonObject } from "../core/json.ts";
import { quoteName } from "../core/names.ts";
import type { A2aClient } from "./a2a-client.ts";
import {
  type CardFacts,
  parseMessage,
  type ReceivedMessage,
  requireId,
  toAgentCard,
  toArtifact,
  toStatus,
  toTask,
  toTaskState,
} from "./a2a-messages.ts";

/** One request. The transport of the SDK passes it on in the state of its context. */
export interface A2aRequest {
  readonly client: A2aClient;
  /** The address of the endpoint, as the client reaches it. */
  readonly url: string;
  readonly signal: AbortSignal;
}

const REQUEST = "request";
export const toContextState = (request: A2aRequest) => new Map<string, unknown>([[REQUEST, request]]);
const getRequest = ({ state }: ServerCallContext) => state.get(REQUEST) as A2aRequest;
const PAGE = { usual: 50, most: 100 };

/** Answers the methods of A2A with tasks. It decides nothing: every message becomes a call of its client. */
export function createA2aHandler(parts: {
  readonly listExposed: Peers["listExposed"];
  readonly tasks: PeerTasks;
  readonly card: CardFacts;
  readonly newId: () => string;
  readonly onProblem: (problem: string) => void;
}): A2ARequestHandler {
  const { listExposed, tasks, newId, onProblem } = parts;

  /** The call that answers a message. */
  function toCall(received: ReceivedMessage, caller: Caller): { readonly action: string; readonly args: JsonObject } {
    const exposed = listExposed(caller);
    const { skill, text, data, args } = received;
    const actors = exposed.filter(({ localActor }) => localActor !== undefined);
    const found = skill === undefined ? actors : exposed.filter(({ name }) => name === skill);
    const [action, ...others] = found;
    // Unknown, hidden and unexposed ones get the same answer.
    if (action === undefined && skill !== undefined)
      throw new RequestMalformedError(`unknown skill ${quoteName(skill)}`);
    if (action === undefined || others.length > 0)
      throw new RequestMalformedError('name a skill of the card in a data part: {"skill": "...", "arguments": {}}');
    if (action.localActor === undefined) return { action: action.name, args };
    if (text === "") throw new RequestMalformedError("the message has no text");
    return { action: action.name, args: { message: text, ...(data === undefined ? {} : { data }) } };
  }

  async function begin({ message }: SendMessageRequest, { client }: A2aRequest): Promise<PeerTask> {
    if (message === undefined) throw new RequestMalformedError("message is missing");
    const received = parseMessage(message);
    const asked = message.taskId === "" ? undefined : await tasks.get(client.name, requireId(message.taskId, "taskId"));
    if (asked !== undefined && message.contextId !== "" && message.contextId !== asked.context)
      throw new RequestMalformedError("message.contextId is not that of the task");
    const given = message.contextId === "" ? undefined : requireId(message.contextId, "message.contextId");
    const context = asked?.context ?? given ?? newId();
    const caller = createPeerCaller(client, context, readHops(message.metadata));
    const skill = received.skill ?? asked?.action;
    const call = toCall({ ...received, ...(skill === undefined ? {} : { skill }) }, caller);
    if (asked !== undefined && call.action !== asked.action)
      throw new RequestMalformedError("the task belongs to another skill");
    const request: TaskRequest = { client: client.name, context, caller, message: received.message, ...call };
    return tasks.send(asked === undefined ? request : { ...request, task: asked.id });
  }

  async function* stream(task: PeerTask, { client, signal }: A2aRequest, historyLength?: number) {
    let last: PeerTask | undefined;
    for await (const { task: now, progress } of tasks.updates(client.name, task.id, signal)) {
      if (last === undefined) yield toEvent("task", toTask(now, historyLength));
      else {
        const ids = { taskId: now.id, contextId: now.context, metadata: undefined };
        if (now.state === "completed") {
          const artifact = { ...ids, artifact: toArtifact(now), append: false, lastChunk: true };
          yield toEvent("artifactUpdate", artifact);
        }
        yield toEvent("statusUpdate", { ...ids, status: toStatus(now, progress ?? now.status) });
      }
      last = now;
    }
  }

  /** Passes on errors of the protocol, and our own as such. Others are reported, and the client learns only that. */
  function toProtocolError(thrown: unknown, conflict: new (message: string) => A2AError): unknown {
    if (thrown instanceof A2AError) return thrown;
    if (!(thrown instanceof QmError)) {
      onProblem(`a message of a peer could not be answered: ${getErrorMessage(thrown)}`);
      return new A2AError("this could not be answered");
    }
    if (thrown.code === "not_found") return new TaskNotFoundError(thrown.message);
    if (thrown.code === "conflict") return new conflict(thrown.message);
    return new A2AError(thrown.message);
  }

  async function attempt<T>(work: () => Promise<T>, conflict = UnsupportedOperationError): Promise<T> {
    try {
      return await work();
    } catch (thrown) {
      throw toProtocolError(thrown, conflict);
    }
  }

  async function* attemptStream(open: () => Promise<AsyncGenerator<StreamResponse>>) {
    try {
      yield* await open();
    } catch (thrown) {
      throw toProtocolError(thrown, UnsupportedOperationError);
    }
  }

  const refusePush = async (): Promise<never> => {
    throw new PushNotificationNotSupportedError();
  };

  return {
    // The endpoint serves the public card itself.
    getAgentCard: async () => toAgentCard(parts.card, "", []),
    getAuthenticatedExtendedAgentCard: (_, context) =>
      attempt(async () => {
        const { client, url } = getRequest(context);
        return toAgentCard(parts.card, url, listExposed(createPeerCaller(client, "card")));
      }),
    sendMessage: (params, context) =>
      attempt(async () => {
        const request = getRequest(context);
        const { returnImmediately = false, historyLength } = params.configuration ?? {};
        let last = await begin(params, request);
        if (!returnImmediately)
          for await (const { task } of tasks.updates(last.client, last.id, request.signal)) {
            last = task;
            if (task.state !== "working") break;
          }
        return toTask(last, historyLength);
      }),
    sendMessageStream: (params, context) =>
      attemptStream(async () => {
        const request = getRequest(context);
        return stream(await begin(params, request), request, params.configuration?.historyLength);
      }),
    getTask: ({ id, historyLength }, context) =>
      attempt(async () => toTask(await tasks.get(getRequest(context).client.name, id), historyLength)),
    cancelTask: ({ id }, context) =>
      attempt(async () => toTask(await tasks.cancel(getRequest(context).client.name, id)), TaskNotCancelableError),
    resubscribe: ({ id }, context) =>
      attemptStream(async () => {
        const request = getRequest(context);
        const task = await tasks.get(request.client.name, id);
        if (hasTaskEnded(task)) throw new UnsupportedOperationError(`the task is ${task.state}`);
        return stream(task, request);
      }),
    listTasks: (params, context) => attempt(() => listTasks(tasks, getRequest(context).client.name, params)),
    createTaskPushNotificationConfig: refusePush,
    getTaskPushNotificationConfig: refusePush,
    listTaskPushNotificationConfigs: refusePush,
    deleteTaskPushNotificationConfig: refusePush,
  };
}

/** The caller of a client's calls: rules see the actor and `ctx.user.id`, and each conversation is a session. */
export const createPeerCaller = ({ name, actor }: A2aClient, context: string, hops = 1): Caller => ({
  actor,
  session: `a2a:${name}:${context}`,
  user: toPeerUser(name),
  hops,
});

type EventCase = NonNullable<StreamResponse["payload"]>;
const toEvent = <Case extends EventCase["$case"]>(
  $case: Case,
  value: Extract<EventCase, { readonly $case: Case }>["value"],
): StreamResponse => ({ payload: { $case, value } as EventCase });

async function listTasks(tasks: PeerTasks, client: string, params: ListTasksRequest): Promise<ListTasksResponse> {
  const { contextId, status, pageSize = PAGE.usual, pageToken, historyLength, includeArtifacts } = params;
  if (!Number.isInteger(pageSize) || pageSize < 1 || pageSize > PAGE.most)
    throw new RequestMalformedError(`pageSize must be from 1 to ${PAGE.most}`);
  const since = params.statusTimestampAfter || undefined;
  if (since !== undefined && Number.isNaN(Date.parse(since)))
    throw new RequestMalformedError("statusTimestampAfter must be a time");
  const state = status ? toTaskState(status) : undefined;
  if (status && state === undefined) return { tasks: [], nextPageToken: "", pageSize, totalSize: 0 };
  const query = {
    client,
    ...(contextId && { context: contextId }),
    ...(state && { state }),
    ...(since && { since: new Date(since).toISOString() }),
  };
  const after = pageToken ? { after: parsePageToken(pageToken) } : {};
  const { tasks: page, hasMore } = await tasks.list({ ...query, ...after, limit: pageSize });
  const last = hasMore ? page.at(-1) : undefined;
  return {
    tasks: page.map((task): Task => toTask(task, historyLength, includeArtifacts === true)),
    nextPageToken: last === undefined ? "" : Buffer.from(`${last.changedAt} ${last.id}`).toString("base64url"),
    pageSize,
    totalSize: await tasks.count(query),
  };
}

function parsePageToken(token: string): Pick<PeerTask, "id" | "changedAt"> {
  const [changedAt, id] = Buffer.from(token, "base64url").toString().split(" ");
  if (changedAt === undefined || id === undefined) throw new RequestMalformedError("pageToken is invalid");
  return { changedAt, id };
}
