import { type AskedQuestion, canShowForm, type Dialogue } from "../../core/caller.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isRecord, type Json, type JsonObject } from "../../core/json.ts";

/** A call that a server is working on, as far as its questions are concerned. */
export interface ServerCall {
  /** Who made it: the owner of its dialogue, and for a call without one something that is the call's alone. */
  readonly owner: unknown;
  /** Absent also where whoever made it has given up and the server may still be at it. */
  readonly dialogue: Dialogue | undefined;
}

/** A request's result that says what must be answered first (protocol 2026-07-28). */
interface InputRequired {
  readonly inputRequests: Readonly<Record<string, unknown>>;
  readonly requestState: string | undefined;
}

const MAX_ROUNDS = 10;
/** A round without a question only waits for the server. */
const QUIET_ROUND_MS = 200;

const METHODS = ["elicitation/create", "sampling/createMessage", "roots/list"];

/**
 * Whose call a message of a server belongs to: the one on whose stream it came; on a channel that all share the latest
 * that can be asked, if everything on it is of one owner. Otherwise nobody's: it must not reach another owner.
 */
export function findAskedCall(
  calls: ReadonlySet<ServerCall>,
  stream: { readonly call: ServerCall | undefined } | undefined,
): ServerCall | undefined {
  if (stream !== undefined) return stream.call !== undefined && calls.has(stream.call) ? stream.call : undefined;
  const all = [...calls];
  if (all.some(({ owner }) => owner !== all[0]?.owner)) return undefined;
  return all.findLast(({ dialogue }) => dialogue !== undefined);
}

/**
 * Answers a request that a server of before 2026-07-28 sent. What cannot be asked is declined, and a list of roots is
 * empty then: a server may ask for both at any time, and must not wait in vain.
 */
export async function answerQuestion(call: ServerCall | undefined, question: AskedQuestion): Promise<JsonObject> {
  const { method } = question;
  if (!METHODS.includes(method)) throw new QuestionRefusedError(-32601, `${method} is not supported here`);
  if (!canAnswer(call?.dialogue, question)) {
    if (method === "elicitation/create") return { action: "decline" };
    if (method === "roots/list") return { roots: [] };
    throw new QuestionRefusedError(-1, "whoever made the call cannot be asked for a completion");
  }
  const answers = await askCaller(call?.dialogue, { question });
  return answers.question ?? { action: "cancel" };
}

/** Answered to the server as a JSON-RPC error. */
export class QuestionRefusedError extends Error {
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Sends a request until it is answered: what the server asks in between goes to the caller as one batch under the
 * server's keys, and the same request goes out again with the answers and the server's state, byte for byte.
 */
export async function sendWithAnswers(
  send: (params: JsonObject) => Promise<JsonObject>,
  params: JsonObject,
  { dialogue, server }: { readonly dialogue: Dialogue | undefined; readonly server: string },
): Promise<JsonObject> {
  let result = await send(params);
  for (let round = 0; result.resultType === "input_required"; round++) {
    if (round === MAX_ROUNDS)
      throw new QmError("action_failed", `${server} asked for something ${MAX_ROUNDS} times and still gave no result`);
    const { inputRequests, requestState } = readInputRequired(result);
    const questions = Object.entries(inputRequests).map(
      ([key, request]) => [key, parseQuestion(server, request)] as const,
    );
    const refused = questions.find(([, question]) => !canAnswer(dialogue, question));
    if (refused !== undefined)
      throw new QmError(
        "action_failed",
        `${server} asked for ${refused[1].method}, and the caller cannot answer that`,
        {
          hint: "Call it from a client that can be asked, or without what makes the server ask.",
        },
      );
    if (questions.length === 0) await new Promise((resolve) => setTimeout(resolve, QUIET_ROUND_MS * (round + 1)));
    const answers = questions.length === 0 ? {} : await askCaller(dialogue, Object.fromEntries(questions));
    result = await send({
      ...params,
      ...(questions.length === 0 ? {} : { inputResponses: answers }),
      ...(requestState === undefined ? {} : { requestState }),
    });
  }
  return result;
}

function readInputRequired(result: JsonObject): InputRequired {
  const { inputRequests, requestState } = result;
  return {
    inputRequests: isRecord(inputRequests) ? inputRequests : {},
    requestState: typeof requestState === "string" ? requestState : undefined,
  };
}

function parseQuestion(server: string, request: unknown): AskedQuestion {
  if (!isRecord(request) || typeof request.method !== "string" || !METHODS.includes(request.method))
    throw new QmError("action_failed", `${server} asked for something that is no question known here`);
  return { method: request.method, params: isRecord(request.params) ? (request.params as JsonObject) : {} };
}

function canAnswer(dialogue: Dialogue | undefined, { method, params }: AskedQuestion): boolean {
  if (dialogue === undefined) return false;
  const { elicitation, sampling, roots } = dialogue.capabilities;
  if (method === "sampling/createMessage") return isRecord(sampling);
  if (method === "roots/list") return isRecord(roots);
  if (!isRecord(elicitation)) return false;
  return params.mode === "url" ? elicitation.url !== undefined : canShowForm(dialogue.capabilities);
}

async function askCaller(
  dialogue: Dialogue | undefined,
  questions: Readonly<Record<string, AskedQuestion>>,
): Promise<Readonly<Record<string, JsonObject>>> {
  if (dialogue === undefined) throw new QuestionRefusedError(-1, "nobody can be asked");
  const answers = await dialogue.ask(questions);
  return Object.fromEntries(
    Object.keys(questions).map((key) => {
      const answer = Object.hasOwn(answers, key) ? answers[key] : undefined;
      if (answer === undefined)
        throw new QmError("action_failed", `the question ${JSON.stringify(key)} was not answered`);
      return [key, applyDefaults(questions[key]?.params, answer)];
    }),
  );
}

/** What a form offers as a default and the answer leaves out holds: the server reads one answer, not two. */
function applyDefaults(params: JsonObject | undefined, answer: JsonObject): JsonObject {
  const schema = params?.requestedSchema;
  if (answer.action !== "accept" || !isRecord(schema) || !isRecord(schema.properties)) return answer;
  const defaults = Object.entries(schema.properties).flatMap(([name, property]) =>
    isRecord(property) && Object.hasOwn(property, "default") ? [[name, property.default as Json] as const] : [],
  );
  if (defaults.length === 0) return answer;
  const given = isRecord(answer.content) ? (answer.content as JsonObject) : {};
  return { ...answer, content: { ...Object.fromEntries(defaults), ...given } };
}

/** What to tell a server whose question failed: nothing of our own inside. */
export function toQuestionError(thrown: unknown): { readonly code: number; readonly message: string } {
  if (thrown instanceof QuestionRefusedError) return { code: thrown.code, message: thrown.message };
  return {
    code: -32603,
    message: thrown instanceof QmError ? getErrorMessage(thrown) : "the question could not be answered",
  };
}
