import { z } from "zod";
import { defineAction } from "../../catalog/define-action.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { isRecord, type JsonObject, omitUndefined } from "../../core/json.ts";
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

/** Actions for resources, prompts and completions. They have the names of MCP methods; tool names have no slash. */
export function createServerActions(access: ServerAccess, spec: ServerSpec, offer: ServerOffer): readonly Action[] {
  const { resources, prompts, completions } = offer.capabilities;
  return [
    ...(resources === undefined ? [] : createResourceActions(access, spec, offer)),
    ...(prompts === undefined ? [] : createPromptActions(access, spec, offer)),
    ...(completions === undefined ? [] : [createCompleteAction(access, spec)]),
  ];
}

/** The only action of a server whose tools are unknown. */
export function createConnectAction(access: ServerAccess, spec: ServerSpec): Action {
  const { name, description } = spec;
  const what = description === undefined ? "" : ` ${description}`;
  return defineAction(MCP_CATEGORY, {
    ...commonFields(access, spec, "connect"),
    description: `Connect to the MCP server ${name} and list its tools, which are not known yet.${what}`,
    effect: "external",
    input: z.strictObject({}),
    async run(_args, { signal, sees, untimed }) {
      const { tools } = await untimed(() => access.hub.connect(name, signal));
      const names = tools.map((tool) => actionName(MCP_CATEGORY, toToolEntry(name, tool.name))).filter(sees);
      return { server: name, actions: names, hint: "Call them by these names, or describe them first." };
    },
  });
}

function createResourceActions(access: ServerAccess, spec: ServerSpec, offer: ServerOffer): readonly Action[] {
  const uri = z.strictObject({ uri: z.string().min(1) });
  const send = (method: string, args: JsonObject, context: CallContext) =>
    sendRequest(access, spec, { method, params: args }, context);
  const { resources } = offer.capabilities;
  const canSubscribe = isRecord(resources) && resources.subscribe !== undefined && resources.subscribe !== false;
  return [
    defineAction(MCP_CATEGORY, {
      ...commonFields(access, spec, "resources/list"),
      description: `List the resources of ${spec.name}: files, records and other things to read, and the templates of their URIs.`,
      effect: "read",
      input: z.strictObject({}),
      run: () => ({ resources: offer.resources, resourceTemplates: offer.resourceTemplates }),
    }),
    defineAction(MCP_CATEGORY, {
      ...commonFields(access, spec, "resources/read"),
      description: `Read a resource of ${spec.name} by its URI.`,
      effect: "read",
      input: uri,
      run: async (args, context) => readResourceResult(await send("resources/read", args, context)),
    }),
    ...(!canSubscribe
      ? []
      : ["resources/subscribe", "resources/unsubscribe"].map((method) =>
          defineAction(MCP_CATEGORY, {
            ...commonFields(access, spec, method),
            description: `${method === "resources/subscribe" ? "Subscribe to" : "Unsubscribe from"} changes of a resource of ${spec.name}.`,
            effect: "read",
            input: uri,
            run: (args, context) => send(method, args, context),
          }),
        )),
  ];
}

function createPromptActions(access: ServerAccess, spec: ServerSpec, offer: ServerOffer): readonly Action[] {
  return [
    defineAction(MCP_CATEGORY, {
      ...commonFields(access, spec, "prompts/list"),
      description: `List the prepared prompts of ${spec.name} and their arguments.`,
      effect: "read",
      input: z.strictObject({}),
      run: () => ({ prompts: offer.prompts }),
    }),
    defineAction(MCP_CATEGORY, {
      ...commonFields(access, spec, "prompts/get"),
      description: `Get a prepared prompt of ${spec.name}, filled in.`,
      effect: "read",
      input: z.strictObject({ name: z.string().min(1), arguments: z.record(z.string(), z.string()).optional() }),
      async run(args, context) {
        const request = { method: "prompts/get", params: args as JsonObject };
        return readPromptResult(await sendRequest(access, spec, request, context));
      },
    }),
  ];
}

function createCompleteAction(access: ServerAccess, spec: ServerSpec): Action {
  return defineAction(MCP_CATEGORY, {
    ...commonFields(access, spec, "completion/complete"),
    description: `Ask ${spec.name} which values an argument of a prompt or of a resource's URI may have.`,
    effect: "read",
    input: z.looseObject({
      ref: z.looseObject({ type: z.string() }),
      argument: z.looseObject({ name: z.string(), value: z.string() }),
    }),
    run: (args, context) =>
      sendRequest(access, spec, { method: "completion/complete", params: args as JsonObject }, context),
  });
}

function commonFields(access: ServerAccess, spec: ServerSpec, entry: string) {
  return {
    entry: toMethodEntry(spec.name, entry),
    idempotent: true,
    ...omitUndefined({ timeoutMs: spec.callTimeoutMs }),
    readiness: () => getReadiness(access, spec.name),
  };
}
