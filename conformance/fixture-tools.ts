import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequests,
  type InputRequiredResult,
  inputRequired,
  type ServerContext,
} from "@modelcontextprotocol/server";
import { PIXEL, SILENCE } from "./fixture-media.ts";
import { allAnswered, form, roots, sample } from "./fixture-questions.ts";
import { askInRounds, askWithState } from "./fixture-states.ts";

type Answer = CallToolResult | InputRequiredResult;

export interface FixtureTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: { readonly type: "object"; readonly [keyword: string]: unknown };
  run(args: Readonly<Record<string, unknown>>, ctx: ServerContext): Answer | Promise<Answer>;
}

const NOTHING = { type: "object", properties: {}, additionalProperties: false } as const;
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));

export function text(said: string): CallToolResult {
  return { content: [{ type: "text", text: said }] };
}

/** Asks in the way of the client's era, and returns the answer as text. */
function asking(questions: InputRequests, ctx: ServerContext, said = "Answered"): Answer {
  const { inputResponses } = ctx.mcpReq;
  if (!allAnswered(questions, inputResponses)) return inputRequired({ inputRequests: questions });
  return text(`${said}: ${JSON.stringify(inputResponses)}`);
}

function withText(property: string): FixtureTool["inputSchema"] {
  return { type: "object", properties: { [property]: { type: "string" } }, required: [property] };
}

const name = { type: "string" };
const enums = {
  untitledSingle: { type: "string", enum: ["option1", "option2", "option3"] },
  titledSingle: { type: "string", oneOf: titled(["value1", "First"], ["value2", "Second"], ["value3", "Third"]) },
  legacyEnum: { type: "string", enum: ["opt1", "opt2", "opt3"], enumNames: ["One", "Two", "Three"] },
  untitledMulti: { type: "array", items: { type: "string", enum: ["option1", "option2", "option3"] } },
  titledMulti: {
    type: "array",
    items: { anyOf: titled(["value1", "First"], ["value2", "Second"], ["value3", "Third"]) },
  },
};

function titled(...pairs: readonly (readonly [string, string])[]): readonly object[] {
  return pairs.map(([value, title]) => ({ const: value, title }));
}

/** The tools that the suite calls by name. `changed` is called when the server's own lists should change. */
export function fixtureTools(changed: (what: "tools" | "prompts") => void): readonly FixtureTool[] {
  const plain = (tool: string, description: string, run: FixtureTool["run"]): FixtureTool => ({
    name: tool,
    description,
    inputSchema: NOTHING,
    run,
  });
  return [
    plain("test_simple_text", "One line of text.", () => text("A plain line of text.")),
    plain("test_image_content", "A picture.", () => ({
      content: [{ type: "image", data: PIXEL, mimeType: "image/png" }],
    })),
    plain("test_audio_content", "A sound.", () => ({
      content: [{ type: "audio", data: SILENCE, mimeType: "audio/wav" }],
    })),
    plain("test_embedded_resource", "A resource inside the result.", () => ({
      content: [
        { type: "resource", resource: { uri: "test://embedded-resource", mimeType: "text/plain", text: "Inside." } },
      ],
    })),
    plain("test_multiple_content_types", "Text, a picture and a resource.", () => ({
      content: [
        { type: "text", text: "Three kinds:" },
        { type: "image", data: PIXEL, mimeType: "image/png" },
        {
          type: "resource",
          resource: { uri: "test://mixed-content-resource", mimeType: "application/json", text: '{"value":123}' },
        },
      ],
    })),
    plain("test_tool_with_logging", "Writes three log lines.", async (_args, { mcpReq }) => {
      for (const line of ["started", "working", "done"]) {
        await mcpReq.log("info", line);
        await pause();
      }
      return text("Three lines were written.");
    }),
    plain("test_logging_tool", "Writes a log line, if it may.", async (_args, { mcpReq }) => {
      await mcpReq.log("info", "a line");
      return text("A log line was sent, if the client asked for logs.");
    }),
    plain("test_tool_with_progress", "Reports its progress.", async (_args, ctx) => {
      for (const progress of [0, 50, 100]) {
        await tell(ctx, progress);
        await pause();
      }
      return text("All of it.");
    }),
    plain("test_error_handling", "Fails.", () => ({ ...text("Failed as expected."), isError: true })),
    {
      ...plain("test_sampling", "Asks the client's model.", ({ prompt }, ctx) =>
        asking({ reply: sample(String(prompt), 100) }, ctx, "LLM response"),
      ),
      inputSchema: withText("prompt"),
    },
    {
      ...plain("test_elicitation", "Asks the user.", ({ message }, ctx) =>
        asking({ reply: form(String(message), { username: name, email: name }) }, ctx, "User response"),
      ),
      inputSchema: withText("message"),
    },
    plain("test_elicitation_sep1034_defaults", "Asks with defaults.", (_args, ctx) =>
      asking(
        {
          reply: form("Change what is wrong", {
            name: { type: "string", default: "John Doe" },
            age: { type: "integer", default: 30 },
            score: { type: "number", default: 95.5 },
            status: { type: "string", enum: ["active", "inactive", "pending"], default: "active" },
            verified: { type: "boolean", default: true },
          }),
        },
        ctx,
        "Elicitation completed",
      ),
    ),
    plain("test_elicitation_sep1330_enums", "Asks with every kind of choice.", (_args, ctx) =>
      asking({ reply: form("Choose", enums) }, ctx, "Elicitation completed"),
    ),
    plain("test_streaming_elicitation", "Tells how far it is, then asks.", async (_args, ctx) => {
      await tell(ctx, 1);
      return asking({ reply: form("Go on?", { ok: { type: "boolean" } }) }, ctx);
    }),
    plain("test_missing_capability", "Needs a client with a model.", (_args, ctx) =>
      asking({ reply: sample("Anything", 10) }, ctx),
    ),
    plain("test_input_required_result_elicitation", "Asks for a name.", (_args, ctx) =>
      asking({ user_name: form("What is your name?", { name }) }, ctx, "Hello"),
    ),
    plain("test_input_required_result_sampling", "Asks the client's model.", (_args, ctx) =>
      asking({ capital_question: sample("What is the capital of France?", 100) }, ctx),
    ),
    plain("test_input_required_result_list_roots", "Asks for the client's folders.", (_args, ctx) =>
      asking({ client_roots: roots }, ctx),
    ),
    plain("test_input_required_result_capabilities", "Asks for what the client can.", (_args, ctx) => {
      const declared = ctx.mcpReq.envelope as Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined;
      const can = declared?.[CLIENT_CAPABILITIES_META_KEY] ?? {};
      return asking(
        {
          ...(can.sampling === undefined ? {} : { model: sample("Anything", 10) }),
          ...(can.elicitation === undefined ? {} : { user: form("Anything?", { ok: { type: "boolean" } }) }),
        },
        ctx,
      );
    }),
    plain("test_input_required_result_request_state", "Asks, and wants its state back.", (_args, ctx) =>
      askWithState({ confirm: form("Please confirm", { ok: { type: "boolean" } }) }, ctx),
    ),
    plain("test_input_required_result_tampered_state", "Asks, and wants its very state back.", (_args, ctx) =>
      askWithState({ confirm: form("Please confirm", { ok: { type: "boolean" } }) }, ctx),
    ),
    plain("test_input_required_result_multiple_inputs", "Asks three things at once.", (_args, ctx) =>
      askWithState(
        { user_name: form("What is your name?", { name }), greeting: sample("A greeting", 50), client_roots: roots },
        ctx,
      ),
    ),
    plain("test_input_required_result_multi_round", "Asks one thing, then another.", (_args, ctx) =>
      askInRounds([{ step1: form("Your name?", { name }) }, { step2: form("Your colour?", { color: name }) }], ctx),
    ),
    plain("test_trigger_tool_change", "Changes the list of tools.", () => {
      changed("tools");
      return text("The tools have changed.");
    }),
    plain("test_trigger_prompt_change", "Changes the list of prompts.", () => {
      changed("prompts");
      return text("The prompts have changed.");
    }),
    { ...plain("json_schema_2020_12_tool", "Has a large schema.", () => text("Fine.")), inputSchema: SCHEMA },
  ];
}

async function tell({ mcpReq }: ServerContext, progress: number): Promise<void> {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return;
  await mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total: 100 } });
}

const SCHEMA = {
  $schema: "https://json-schema.org/draft/2020-12/schema",
  type: "object",
  $defs: {
    address: {
      $anchor: "addressDef",
      type: "object",
      properties: { street: { type: "string" }, city: { type: "string" } },
    },
  },
  properties: {
    name: { type: "string" },
    address: { $ref: "#/$defs/address" },
    contactMethod: { type: "string", enum: ["phone", "email"] },
    phone: { type: "string" },
    email: { type: "string" },
  },
  allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
  if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: { required: ["phone"] },
  else: { required: ["email"] },
  additionalProperties: false,
} as const;
