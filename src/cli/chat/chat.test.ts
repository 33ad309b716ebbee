import { expect, test } from "vitest";
import type { Workspace } from "../../workspace/workspace.ts";
import type { Context } from "../context.ts";
import { createOutput } from "../output.ts";
import { runChat } from "./chat.ts";
import type { ChatInput } from "./chat-input.ts";

test("leaves at the second Ctrl-C although the turn does not end", async () => {
  const stream = { write: () => {}, isTTY: false };
  const io = { stdout: stream, stderr: stream, env: {}, signal: new AbortController().signal };
  let interrupt = (): void => {};
  const input: Partial<ChatInput> = {
    isInteractive: true,
    read: async () => ({ kind: "text", text: "Hi" }),
    onInterrupt(listener) {
      interrupt = listener;
      return () => {};
    },
  };
  const signals: AbortSignal[] = [];
  const callActor = (_actor: string, _text: string, { signal }: { signal: AbortSignal }) => {
    signals.push(signal);
    queueMicrotask(() => interrupt());
    signal.addEventListener("abort", () => interrupt());
    return new Promise(() => {});
  };

  const ended = runChat(
    { io, out: createOutput(io, false, false), globals: {} } as unknown as Context,
    { quartermaster: { callActor }, config: { ledger: {} } } as unknown as Workspace,
    input as ChatInput,
    { actor: "a", model: "m", session: "s" },
  );

  expect(await ended).toBe(130);
  expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
});
