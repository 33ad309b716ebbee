import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import type { ServerSpec } from "../server-spec.ts";
import {
  getReadiness,
  MCP_CATEGORY,
  readPromptResult,
  readResourceResult,
  type ServerAccess,
  sendRequest,
  toMethodEntry,
  toToolEntry,
} from "./tool-actions.ts";

/** What a server offers beside its tools. The names are MCP's own; no tool is called so, because of the slash. */
export function createServerActions(reach: ServerAccess, spec: ServerSpec, offer: ServerOffer): readonly Action[] {
  const { resources, prompts, completions } = offer.capabilities;
  return [
    ...(resources === undefined ? [] : createResourceActions(reach, spec, offer)),
    ...(prompts === undefined ? [] : createPromptActions(reach, spec, offer)),
    ...(completions === undefined ? [] : [createCompleteAction(reach, spec)]),
  ];
}

/** What stands for the tools of a server that was never asked for them. */
export function createConnectAction(reach: ServerAccess, spec: ServerSpec): Action {
  const { name, description } = spec;
  const what = description === undefined ? "" : ` ${description}`;
  return defineAction(MCP_CATEGORY, {
    ...commonFields(reach, spec, "connect"),
    description: `Connect to the MCP server ${name} and learn which tools it has. They are not known yet.${what}`,
    effect: "external",
    input: z.strictObject({}),
    async run(_args, { signal, sees, untimed }) {
      const { tools } = await untimed(() => reach.hub.connect(name, signal));
      const names = tools.map((tool) => actionName(MCP_CATEGORY, toToolEntry(name, tool.name))).filter(sees);
      return { server: name, actions: names, hint: "Call them by these names, or describe them first." };
    },
  });
}

function createResourceActions(reach: ServerAccess, spec: ServerSpec, offer: ServerOffer): readonly Action[] {
  const uri = z.strictObject({ uri: z.string().min(1) });
  const send = (method: string, args: JsonObject, context: CallContext) =>
    sendRequest(reach, spec, { method, params: args }, context);
  const { subscribe } = toRecord(offer.capabilities.resources);
  return [
    defineAction(MCP_CATEGORY, {
      ...commonFields(reach, spec, "resources/list"),
      description: `List the resources of ${spec.name}: files, records and other things to read, and the templates of their URIs.`,
      effect: "read",
      input: z.strictObject({}),
      run: () => ({ resources: offer.resources, resourceTemplates: offer.resourceTemplates }),
    }),
    defineAction(MCP_CATEGORY, {
      ...commonFields(reach, spec, "resources/read"),
      description: `Read a resource of ${spec.name} by its URI.`,
      effect: "read",
      input: uri,
      run: async (args, context) => readResourceResult(await send("resources/read", args, context)),
    }),
    ...(subscribe === undefined || subscribe === false
      ? []
      : (["resources/subscribe", "resources/unsubscribe"] as const).map((method) =>
          defineAction(MCP_CATEGORY, {
            ...commonFields(reach, spec, method),
            description: `${method === "resources/subscribe" ? "Be told" : "No longer be told"} when a resource of ${spec.name} changes.`,
            effect: "read",
            input: uri,
            run: (args, context) => send(method, args, context),
          }),
        )),
  ];
}

function createPromptActions(reach: ServerAccess, spec: ServerSpec, offer: ServerOffer): readonly Action[] {
  return [
    defineAction(MCP_CATEGORY, {
      ...commonFields(reach, spec, "prompts/list"),
      description: `List the prepared prompts of ${spec.name} and their arguments.`,
      effect: "read",
      input: z.strictObject({}),
      run: () => ({ prompts: offer.prompts }),
    }),
    defineAction(MCP_CATEGORY, {
      ...commonFields(reach, spec, "prompts/get"),
      description: `Get a prepared prompt of ${spec.name}, filled in.`,
      effect: "read",
      input: z.strictObject({ name: z.string().min(1), arguments: z.record(z.string(), z.string()).optional() }),
      run: async (args, context) =>
        readPromptResult(
          await sendRequest(reach, spec, { method: "prompts/get", params: args as JsonObject }, context),
        ),
    }),
  ];
}

function createCompleteAction(reach: ServerAccess, spec: ServerSpec): Action {
  return defineAction(MCP_CATEGORY, {
    ...commonFields(reach, spec, "completion/complete"),
    description: `Ask ${spec.name} which values an argument of a prompt or of a resource's URI may have.`,
    effect: "read",
    input: z.looseObject({
      ref: z.looseObject({ type: z.string() }),
      argument: z.looseObject({ name: z.string(), value: z.string() }),
    }),
    run: (args, context) =>
      sendRequest(reach, spec, { method: "completion/complete", params: args as JsonObject }, context),
  });
}

function commonFields(reach: ServerAccess, spec: ServerSpec, entry: string) {
  return {
    entry: toMethodEntry(spec.name, entry),
    idempotent: true,
    ...(spec.callTimeoutMs === undefined ? {} : { timeoutMs: spec.callTimeoutMs }),
    readiness: () => getReadiness(reach, spec.name),
  };
}

function toRecord(value: unknown): JsonObject {
  return isRecord(value) ? (value as JsonObject) : {};
}
