import { once } from "node:events";
import type { ServerResponse } from "node:http";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { QmError } from "../core/errors.ts";
import type { ModelRequest, TextListener } from "../core/model.ts";
import { createConfiguredModel, type ModelSettings } from "./configured-model.ts";
import { EVENT_STREAM, formatEvent, type ScriptedAnswer, startScriptedServer } from "./testing.ts";

const KEY = "sk-proj-abcdefghijklmnop";
const HELLO: ModelRequest = { messages: [{ role: "user", text: "Hello" }] };
const TOOLS = ["file__read", "agent.peer__ask"].map((name) => {
  return { name, description: "A tool.", inputSchema: { type: "object" } };
});
const never = new AbortController().signal;

async function startServer(...script: ScriptedAnswer[]) {
  const server = await startScriptedServer(...script);
  onTestFinished(server.close);
  return server;
}

/** A model on a server with these answers, which collects the pieces of its text. */
async function createModel(
  settings: Pick<ModelSettings, "provider"> & Partial<ModelSettings>,
  script: ScriptedAnswer[],
) {
  const server = await startServer(...script);
  const model = createConfiguredModel({ model: "small", ...settings }, () => ({ baseUrl: server.url, apiKey: KEY }));
  const pieces: string[] = [];
  const stream = (listener: TextListener = () => {}, signal = never) =>
    model.generate(HELLO, signal, (piece) => {
      pieces.push(piece);
      return listener(piece);
    });
  return { server, model, pieces, stream };
}

/** How each API begins an answer, adds text to it, and reports a failure in the middle. */
const events = {
  "openai-compatible": {
    begin: [] as readonly unknown[],
    text: (content: string) => ({ choices: [{ index: 0, delta: { content } }] }),
    end: [{ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }, "[DONE]"],
    failure: (message: string) => ({ error: { message } }),
  },
  anthropic: {
    begin: [
      {
        type: "message_start",
        message: {
          id: "m",
          type: "message",
          role: "assistant",
          model: "small",
          content: [],
          usage: { input_tokens: 1 },
        },
      },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
    ] as readonly unknown[],
    text: (text: string) => ({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
    end: [
      { type: "content_block_stop", index: 0 },
      { type: "message_delta", delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 1 } },
      { type: "message_stop" },
    ],
    failure: (message: string) => ({ type: "error", error: { type: "api_error", message } }),
  },
};

const send = (response: ServerResponse, ...sent: readonly unknown[]) => {
  if (!response.headersSent) response.writeHead(200, EVENT_STREAM);
  response.write(sent.map(formatEvent).join(""));
  return response;
};

describe.each(["openai-compatible", "anthropic"] as const)("a streamed answer of the API %s", (provider) => {
  const { begin, text, end, failure } = events[provider];

  test("is the same as without a stream, and its text comes in pieces", async () => {
    const answer: ScriptedAnswer = {
      text: "I read the file, then I ask.",
      toolCalls: [
        { id: "c1", name: "file__read", input: { path: "a file with a long name.txt" } },
        { id: "c2", name: "file__read", input: {} },
      ],
      thinking: { text: "Let me think about it.", signature: "c2lnbmVk" },
      tokens: { input: 70, output: 30 },
    };
    const cut: ScriptedAnswer = { text: "It was a dark and", isCut: true };
    const { server, model, pieces, stream } = await createModel({ provider }, [answer, answer, cut, cut]);

    const plain = await model.generate(HELLO, never);
    const streamed = await stream();

    expect(streamed).toEqual(plain);
    expect(streamed).toMatchObject({ finish: "tool-calls", inputTokens: 70, outputTokens: 30 });
    expect(streamed.message.raw !== undefined).toBe(provider === "anthropic");
    expect(pieces.join("")).toBe("I read the file, then I ask.");
    expect(pieces.length).toBeGreaterThan(1);
    expect(server.requests.map(({ body }) => body.stream ?? false)).toEqual([false, true]);
    const [plainCut, streamedCut] = [await model.generate(HELLO, never), await stream()];
    expect(streamedCut).toEqual(plainCut);
    expect(streamedCut.finish).toBe("length");
  });

  test("is repeated when it fails before the first text, and not afterwards", async () => {
    const before: ScriptedAnswer = (response) => send(response, ...begin).end(() => response.destroy());
    const after: ScriptedAnswer = (response) => send(response, ...begin, text("It was ")).end();
    const { server, pieces, stream } = await createModel({ provider }, [
      before,
      { text: "Hi." },
      after,
      { text: "Hi." },
    ]);

    expect(await stream()).toMatchObject({ attempts: 2, message: { text: "Hi." } });
    expect(pieces).toEqual(["Hi."]);
    await expect(stream()).rejects.toMatchObject({
      code: "model_failed",
      message: 'the language model "small" ended its answer too early',
      details: { attempts: 1 },
    });
    expect(server.requests).toHaveLength(3);
  });

  test("fails with the message of the server, but never with a part of the key", async () => {
    const fail = (message: string): ScriptedAnswer => {
      return (response) => send(response, ...begin, text("It "), failure(message)).end();
    };
    const { stream } = await createModel({ provider }, [
      fail("The disk\u001b[2J is full."),
      fail(`Key ${KEY.slice(2, 12)}`),
    ]);

    const error = await stream().catch((thrown: unknown) => thrown as QmError);
    const second = await stream().catch((thrown: unknown) => thrown as QmError);

    expect(error).toMatchObject({ code: "model_failed", message: expect.stringContaining("is full.") });
    expect(JSON.stringify([error, second])).not.toContain("\u001b");
    expect(second).toMatchObject({ message: 'the language model "small" failed while it answered' });
  });

  test("may take longer than the time limit, which is for the wait for the next piece", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    let answering: ServerResponse | undefined;
    const words = ["one ", "two ", "three ", "four "];
    const begun: ScriptedAnswer = (response) => {
      answering = send(response, ...begin, text("zero "));
    };
    const { stream } = await createModel({ provider, timeoutMs: 1000 }, [begun]);

    const { message } = await stream(() => {
      vi.advanceTimersByTime(800);
      const word = words.shift();
      if (answering !== undefined) send(answering, ...(word === undefined ? end : [text(word)]));
      if (word === undefined) answering?.end();
    });

    expect(message.text).toBe("zero one two three four ");
  });

  test("is timed out when the next piece does not come, and the request ends", async () => {
    let closed: Promise<unknown> | undefined;
    const silent: ScriptedAnswer = (response) => {
      closed = once(response, "close");
      send(response, ...begin, text("It "));
    };
    const { server, stream } = await createModel({ provider, timeoutMs: 100 }, [silent]);

    await expect(stream()).rejects.toMatchObject({ code: "timed_out" });
    await closed;
    expect(server.requests).toHaveLength(1);
  });

  test("ends with the reason of the signal, and the request ends", async () => {
    const cancelled = new QmError("cancelled", "the call was cancelled");
    const controller = new AbortController();
    const closed: Promise<unknown>[] = [];
    const silent: ScriptedAnswer = (response) => {
      closed.push(once(response, "close"));
      send(response, ...begin, text("It "));
    };
    const second = new AbortController();
    const unanswered: ScriptedAnswer = (response) => {
      closed.push(once(response, "close"));
      second.abort(cancelled);
    };
    const { stream } = await createModel({ provider }, [silent, unanswered]);

    await expect(stream(() => controller.abort(cancelled), controller.signal)).rejects.toBe(cancelled);
    await expect(stream(() => {}, second.signal)).rejects.toBe(cancelled);
    expect(await Promise.all(closed)).toHaveLength(2);
  });

  test("fails when it has no end", async () => {
    let written = 0;
    const endless: ScriptedAnswer = (response) => {
      send(response, ...begin);
      const piece = formatEvent(text("x".repeat(64 * 1024)));
      const more = () => {
        while (response.writable && response.write(piece)) written += piece.length;
      };
      response.on("drain", more);
      more();
    };
    const { server, stream } = await createModel({ provider }, [endless]);

    await expect(stream()).rejects.toMatchObject({
      code: "model_failed",
      message: expect.stringContaining("more than 4 MiB"),
    });
    expect(written).toBeLessThan(64 * 2 ** 20);
    expect(server.requests).toHaveLength(1);
  });

  test("does not depend on a listener that throws", async () => {
    const { stream } = await createModel({ provider }, [{ text: "It was a dark night." }, { text: "Hi." }]);

    const answers = [
      await stream(() => {
        throw new Error("the window is closed");
      }),
      await stream((async () => Promise.reject(new Error("the window is closed"))) as TextListener),
    ];

    expect(answers.map(({ message }) => message.text)).toEqual(["It was a dark night.", "Hi."]);
  });

  test("may be a call of the one tool that the request demands", async () => {
    const { server, model } = await createModel({ provider }, [{ text: "" }, { text: "" }]);

    await model.generate({ ...HELLO, tools: TOOLS, toolChoice: { tool: "file__read" } }, never);
    await model.generate({ ...HELLO, tools: TOOLS, toolChoice: { tool: "agent.peer__ask" } }, never, () => {});

    const [plain, streamed] = server.requests.map(({ body }) => body.tool_choice);
    const choose = (name: unknown) =>
      provider === "anthropic" ? { type: "tool", name } : { type: "function", function: { name } };
    expect(plain).toEqual(choose("file__read"));
    expect(streamed).toEqual(choose(expect.stringMatching(/^agent_peer__ask-[0-9a-f]{12}$/)));
  });
});
