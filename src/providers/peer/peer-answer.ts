import type { Artifact, Message, Part, StreamResponse, Task, TaskStatus } from "@a2a-js/sdk";
import { toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import { clip, type Json, omitUndefined } from "../../core/json.ts";
import { quoteName } from "../../core/names.ts";

/** The states of a task, at the numbers that the SDK has for them. */
export const peerStates = [
  "unspecified",
  "submitted",
  "working",
  "completed",
  "failed",
  "canceled",
  "input_required",
  "rejected",
  "auth_required",
] as const;
export type PeerState = (typeof peerStates)[number];

/** A part of an answer that is not text. */
export interface PeerPart {
  readonly data?: Json;
  readonly url?: string;
  readonly base64?: string;
  readonly mediaType?: string;
  readonly filename?: string;
}

export interface PeerResult {
  readonly state: PeerState;
  readonly text: string;
  readonly parts?: readonly PeerPart[];
  /** Given back with a further message, they continue the task or the conversation. */
  readonly task?: string;
  readonly context?: string;
  readonly note?: string;
}

const ID_LIMIT = 256;
const ENDED: readonly PeerState[] = ["completed", "failed", "canceled", "rejected", "input_required"];
const NOTES: { readonly [State in PeerState]?: string } = {
  input_required: "The peer asks for more. Answer with another message and the same task.",
  auth_required: "A person at the peer must approve it first. Ask again with the task alone; nothing is sent twice.",
};
const STILL_WORKING = "The peer still works on it. Ask again with the task alone; nothing is sent twice.";

/** Collects what a peer tells about one task: whole tasks, updates of a stream, or a message without a task. */
export class PeerAnswer {
  readonly #peer: string;
  readonly #artifacts = new Map<string, Part[]>();
  #state: PeerState = "unspecified";
  #said: readonly Part[] = [];
  #task: string | undefined;
  #context: string | undefined;

  constructor(peer: string, task?: string) {
    this.#peer = peer;
    this.#task = task;
  }

  get task(): string | undefined {
    return this.#task;
  }

  get hasEnded(): boolean {
    return ENDED.includes(this.#state);
  }

  /** Returns the text of a status, for progress. */
  add({ payload }: StreamResponse): string | undefined {
    switch (payload?.$case) {
      case "message":
        this.addMessage(payload.value);
        return undefined;
      case "task":
        return this.addTask(payload.value);
      case "statusUpdate":
        this.#identify(payload.value.taskId, payload.value.contextId);
        return this.#setStatus(payload.value.status);
      case "artifactUpdate":
        this.#identify(payload.value.taskId, payload.value.contextId);
        this.#addArtifact(payload.value.artifact, payload.value.append);
        return undefined;
      default:
        throw createAnswerError(this.#peer, "an event of its stream is empty");
    }
  }

  addTask({ id, contextId, status, artifacts }: Task): string | undefined {
    this.#identify(id, contextId);
    this.#artifacts.clear();
    for (const artifact of artifacts) this.#addArtifact(artifact, false);
    return this.#setStatus(status);
  }

  /** A message without a task is the whole answer. */
  addMessage({ parts, contextId }: Message): void {
    this.#context = toId(contextId) ?? this.#context;
    this.#said = parts;
    this.#state = "completed";
  }

  /** Throws as the peer ended: `action_failed`, `denied` or `cancelled`. */
  toResult(): PeerResult {
    const state = this.#state;
    const artifacts = [...this.#artifacts.values()].flat();
    const parts = artifacts.length > 0 && state === "completed" ? artifacts : [...artifacts, ...this.#said];
    const ids = omitUndefined({ task: this.#task, context: this.#context });
    const text = parts.flatMap(({ content }) => (content?.$case === "text" ? [content.value] : [])).join("\n\n");
    if (state === "failed" || state === "rejected" || state === "canceled")
      throw createEndError(this.#peer, state, text, { peer: this.#peer, state, ...ids });
    const others = parts.flatMap(toPeerPart);
    const note = this.hasEnded ? NOTES[state] : (NOTES[state] ?? STILL_WORKING);
    return { state, text, ...(others.length > 0 && { parts: others }), ...ids, ...omitUndefined({ note }) };
  }

  #identify(task: string, context: string): void {
    const id = toId(task);
    if (id === undefined) throw createAnswerError(this.#peer, "it named no task");
    if (this.#task !== undefined && this.#task !== id) throw createAnswerError(this.#peer, "it told of another task");
    this.#task = id;
    this.#context = toId(context) ?? this.#context;
  }

  #setStatus(status: TaskStatus | undefined): string | undefined {
    this.#state = peerStates.at(Math.max(0, status?.state ?? 0)) ?? "unspecified";
    this.#said = status?.message?.parts ?? [];
    const text = this.#said.flatMap(({ content }) => (content?.$case === "text" ? [content.value] : [])).join(" ");
    return text === "" ? undefined : clip(toOneLine(text.slice(0, 2_000)), 500);
  }

  #addArtifact(artifact: Artifact | undefined, append: boolean): void {
    if (artifact === undefined) return;
    const before = append ? this.#artifacts.get(artifact.artifactId) : undefined;
    if (before === undefined) this.#artifacts.set(artifact.artifactId, [...artifact.parts]);
    else for (const part of artifact.parts) before.push(part);
  }
}

const toId = (text: string): string | undefined =>
  typeof text === "string" && text !== "" && text.length <= ID_LIMIT ? text : undefined;

function toPeerPart({ content, mediaType, filename }: Part): readonly PeerPart[] {
  const about = { ...(mediaType && { mediaType }), ...(filename && { filename }) };
  switch (content?.$case) {
    case "data":
      return [{ data: content.value ?? null, ...about }];
    case "url":
      return [{ url: content.value, ...about }];
    case "raw":
      return [{ base64: content.value.toString("base64"), ...about }];
    default:
      return [];
  }
}

export function createAnswerError(peer: string, why: string): QmError {
  const hint = "This is a fault of the peer. It may have had an effect: look before trying again.";
  return new QmError("server_failed", `the answer of the peer ${peer} is invalid: ${why}`, { hint, details: { peer } });
}

function createEndError(
  peer: string,
  state: "failed" | "rejected" | "canceled",
  text: string,
  details: Readonly<Record<string, string>>,
): QmError {
  const said = text.trim() === "" ? "" : `: ${quoteName(toOneLine(text.slice(0, 1_000)))}`;
  if (state === "canceled") return new QmError("cancelled", `the peer ${peer} cancelled the task${said}`, { details });
  if (state === "failed") return new QmError("action_failed", `the peer ${peer} failed${said}`, { details });
  const hint = "Choose another way; asking again will not help.";
  return new QmError("denied", `the peer ${peer} refused${said}`, { hint, details });
}
