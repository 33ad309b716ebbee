import { z } from "zod";
import { defineAction } from "../../catalog/define.ts";
import type { Action, CallContext } from "../../core/action.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";
import { actionName } from "../../core/names.ts";
import type { Offer } from "../manifest/offer.ts";
import type { ServerSpec } from "../server-spec.ts";
import { methodEntry, toolEntry } from "./entry-names.ts";
import { promptResult, resourceResult } from "./results.ts";
import { MCP, type Reach, readinessOf, requested } from "./tool-actions.ts";

/** What a server offers beside its tools. The names are MCP's own; no tool is called so, because of the slash. */
export function serverActions(reach: Reach, spec: ServerSpec, offer: Offer): readonly Action[] {
  const { resources, prompts, completions } = offer.capabilities;
  return [
    ...(resources === undefined ? [] : resourceActions(reach, spec, offer)),
    ...(prompts === undefined ? [] : promptActions(reach, spec, offer)),
    ...(completions === undefined ? [] : [completeAction(reach, spec)]),
  ];
}

/** What stands for the tools of a server that was never asked for them. */
export function connectAction(reach: Reach, spec: ServerSpec): Action {
  const { name, description } = spec;
  const what = description === undefined ? "" : ` ${description}`;
  return defineAction(MCP, {
    ...common(reach, spec, "connect"),
    description: `Connect to the MCP server ${name} and learn which tools it has. They are not known yet.${what}`,
    effect: "external",
    input: z.strictObject({}),
    async run(_args, { signal, sees, untimed }) {
      const { tools } = await untimed(() => reach.hub.connect(name, signal));
      const names = tools.map((tool) => actionName(MCP, toolEntry(name, tool.name))).filter(sees);
      return { server: name, actions: names, hint: "Call them by these names, or describe them first." };
    },
  });
}

function resourceActions(reach: Reach, spec: ServerSpec, offer: Offer): readonly Action[] {
  const uri = z.strictObject({ uri: z.string().min(1) });
  const send = (method: string, args: JsonObject, context: CallContext) =>
    requested(reach, spec, { method, params: args }, context);
  const { subscribe } = recordOf(offer.capabilities.resources);
  return [
    defineAction(MCP, {
      ...common(reach, spec, "resources/list"),
      description: `List the resources of ${spec.name}: files, records and other things to read, and the templates of their URIs.`,
      effect: "read",
      input: z.strictObject({}),
      run: () => ({ resources: offer.resources, resourceTemplates: offer.resourceTemplates }),
    }),
    defineAction(MCP, {
      ...common(reach, spec, "resources/read"),
      description: `Read a resource of ${spec.name} by its URI.`,
      effect: "read",
      input: uri,
      run: async (args, context) => resourceResult(await send("resources/read", args, context)),
    }),
    ...(subscribe === undefined || subscribe === false
      ? []
      : (["resources/subscribe", "resources/unsubscribe"] as const).map((method) =>
          defineAction(MCP, {
            ...common(reach, spec, method),
            description: `${method === "resources/subscribe" ? "Be told" : "No longer be told"} when a resource of ${spec.name} changes.`,
            effect: "read",
            input: uri,
            run: (args, context) => send(method, args, context),
          }),
        )),
  ];
}

function promptActions(reach: Reach, spec: ServerSpec, offer: Offer): readonly Action[] {
  return [
    defineAction(MCP, {
      ...common(reach, spec, "prompts/list"),
      description: `List the prepared prompts of ${spec.name} and their arguments.`,
      effect: "read",
      input: z.strictObject({}),
      run: () => ({ prompts: offer.prompts }),
    }),
    defineAction(MCP, {
      ...common(reach, spec, "prompts/get"),
      description: `Get a prepared prompt of ${spec.name}, filled in.`,
      effect: "read",
      input: z.strictObject({ name: z.string().min(1), arguments: z.record(z.string(), z.string()).optional() }),
      run: async (args, context) =>
        promptResult(await requested(reach, spec, { method: "prompts/get", params: args as JsonObject }, context)),
    }),
  ];
}

function completeAction(reach: Reach, spec: ServerSpec): Action {
  return defineAction(MCP, {
    ...common(reach, spec, "completion/complete"),
    description: `Ask ${spec.name} which values an argument of a prompt or of a resource's URI may have.`,
    effect: "read",
    input: z.looseObject({
      ref: z.looseObject({ type: z.string() }),
      argument: z.looseObject({ name: z.string(), value: z.string() }),
    }),
    run: (args, context) =>
      requested(reach, spec, { method: "completion/complete", params: args as JsonObject }, context),
  });
}

function common(reach: Reach, spec: ServerSpec, entry: string) {
  return {
    entry: methodEntry(spec.name, entry),
    idempotent: true,
    ...(spec.callTimeoutMs === undefined ? {} : { timeoutMs: spec.callTimeoutMs }),
    readiness: () => readinessOf(reach, spec.name),
  };
}

function recordOf(value: unknown): JsonObject {
  return isRecord(value) ? (value as JsonObject) : {};
}
