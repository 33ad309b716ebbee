import { setTimeout as pause } from "node:timers/promises";
import type { Abortable } from "../../core/abortable.ts";
import { type AskedQuestion, canShowForm, type Dialogue } from "../../core/caller.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { getOwn, isRecord, type Json, type JsonObject, omitUndefined } from "../../core/json.ts";
import { waitUnlessAborted } from "./server-errors.ts";

/** A call that a server is working on. The server may ask its caller questions. */
export interface ServerCall {
  /** The owner of the dialogue. A call without one has a unique owner of its own. */
  readonly owner: unknown;
  /** Undefined also if the caller gave up while the server may still be working. */
  readonly dialogue: Dialogue | undefined;
}

const MAX_ROUNDS = 10;
/** The wait before sending again when the server asked nothing; it grows with each round. */
const QUIET_ROUND_MS = 200;
const METHODS = ["elicitation/create", "sampling/createMessage", "roots/list"];

/**
 * Finds the call that a server's message belongs to: the call whose stream brought it. On a shared channel it is the
 * latest call that can be asked, but only if all calls have one owner. A question must never reach another owner.
 */
export function findAskedCall(calls: ReadonlySet<ServerCall>, stream: { call: ServerCall | undefined } | undefined) {
  if (stream !== undefined) return stream.call !== undefined && calls.has(stream.call) ? stream.call : undefined;
  const all = [...calls];
  if (all.some(({ owner }) => owner !== all[0]?.owner)) return undefined;
  return all.findLast(({ dialogue }) => dialogue !== undefined);
}

/** Answers a legacy server. What cannot be asked is declined, so that no server waits in vain, or throws. */
export async function answerQuestion(call: ServerCall | undefined, question: AskedQuestion): Promise<JsonObject> {
  const { method } = question;
  if (!METHODS.includes(method)) throw new QuestionRefusedError(-32601, `${method} is not supported here`);
  if (!canAnswer(call?.dialogue, question)) {
    if (method === "elicitation/create") return { action: "decline" };
    if (method === "roots/list") return { roots: [] };
    throw new QuestionRefusedError(-1, "the caller cannot be asked for a completion");
  }
  const answers = await askCaller(call?.dialogue, { question });
  return answers.question ?? { action: "cancel" };
}

class QuestionRefusedError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** The error for a server whose question failed. It reveals no internal error. */
export function toRefusal(thrown: unknown): QuestionRefusedError {
  if (thrown instanceof QuestionRefusedError) return thrown;
  const message = thrown instanceof QmError ? getErrorMessage(thrown) : "the question could not be answered";
  return new QuestionRefusedError(-32603, message);
}

/** Sends a request until the server answers it. Each round's questions go to the caller as one batch. */
export async function sendWithAnswers(
  send: (params: JsonObject) => Promise<JsonObject>,
  params: JsonObject,
  { dialogue, server, signal }: { dialogue: Dialogue | undefined; server: string; signal?: Abortable | undefined },
) {
  let result = await send(params);
  for (let round = 0; result.resultType === "input_required"; round++) {
    if (round === MAX_ROUNDS)
      throw new QmError("action_failed", `${server} asked ${MAX_ROUNDS} times and still gave no result`);
    const { inputRequests, requestState } = result;
    const questions = Object.entries(isRecord(inputRequests) ? inputRequests : {}).map(
      ([key, request]) => [key, parseQuestion(server, request)] as const,
    );
    const refused = questions.find(([, question]) => !canAnswer(dialogue, question));
    if (refused !== undefined) {
      const message = `${server} asked for ${refused[1].method}, and the caller cannot answer that`;
      const hint = "Call it from a client that can be asked, or without what makes the server ask.";
      throw new QmError("action_failed", message, { hint });
    }
    const isQuiet = questions.length === 0;
    const answering = isQuiet
      ? pause(QUIET_ROUND_MS * (round + 1), undefined)
      : askCaller(dialogue, Object.fromEntries(questions));
    const answered = omitUndefined({
      inputResponses: await waitUnlessAborted(answering, signal),
      requestState: typeof requestState === "string" ? requestState : undefined,
    });
    result = await send({ ...params, ...answered });
  }
  return result;
}

function parseQuestion(server: string, request: unknown): AskedQuestion {
  if (!isRecord(request) || typeof request.method !== "string" || !METHODS.includes(request.method))
    throw new QmError("action_failed", `${server} asked a question of an unknown kind`);
  return { method: request.method, params: isRecord(request.params) ? (request.params as JsonObject) : {} };
}

function canAnswer(dialogue: Dialogue | undefined, { method, params }: AskedQuestion): boolean {
  if (dialogue === undefined) return false;
  const { elicitation, sampling, roots } = dialogue.capabilities;
  if (method === "sampling/createMessage") return isRecord(sampling);
  if (method === "roots/list") return isRecord(roots);
  if (params.mode !== "url") return canShowForm(dialogue.capabilities);
  return isRecord(elicitation) && elicitation.url !== undefined;
}

async function askCaller(dialogue: Dialogue | undefined, questions: Readonly<Record<string, AskedQuestion>>) {
  if (dialogue === undefined) throw new QuestionRefusedError(-1, "the caller cannot be asked");
  const answers = await dialogue.ask(questions);
  return Object.fromEntries(
    Object.entries(questions).map(([key, { params }]) => {
      const answer = getOwn(answers, key);
      if (answer === undefined)
        throw new QmError("action_failed", `the question ${JSON.stringify(key)} was not answered`);
      return [key, applyDefaults(params, answer)];
    }),
  );
}

/** Fills the defaults of a form into an accepted answer, so that the server reads complete content. */
function applyDefaults({ requestedSchema: schema }: JsonObject, answer: JsonObject): JsonObject {
  if (answer.action !== "accept" || !isRecord(schema) || !isRecord(schema.properties)) return answer;
  const defaults = Object.entries(schema.properties).flatMap(([name, property]) =>
    isRecord(property) && Object.hasOwn(property, "default") ? [[name, property.default as Json] as const] : [],
  );
  if (defaults.length === 0) return answer;
  const content = isRecord(answer.content) ? (answer.content as JsonObject) : {};
  return { ...answer, content: { ...Object.fromEntries(defaults), ...content } };
}
