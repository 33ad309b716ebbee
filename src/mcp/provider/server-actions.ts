import { z } from "zod";
import { defineAction, type PendingSource } from "../../catalog/define-action.ts";
import type { Action, Handler } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord, type JsonObject, omitUndefined } from "../../core/json.ts";
import { actionName, getEntry } from "../../core/names.ts";
import type { ServerOffer } from "../manifests/offer.ts";
import { hasSkills, isSkillUri } from "../manifests/offered-skill.ts";
import { resolveToolTraits } from "../manifests/tool-traits.ts";
import type { ServerSpec } from "../server-spec.ts";
import {
  getReadiness,
  MCP_CATEGORY,
  readPromptResult,
  readResourceResult,
  type ServerAccess,
  sendRequest,
  toDefinitionEntry,
  toMethodEntry,
  toServerSource,
} from "./tool-actions.ts";

export const LIST_TOOLS = actionName(MCP_CATEGORY, "list_tools");

/** Actions for resources, prompts and completions. They have the names of MCP methods; tool names have no slash. */
export function createServerActions(access: ServerAccess, spec: ServerSpec, offer: ServerOffer): readonly Action[] {
  const { name } = spec;
  const { resources, prompts, completions } = offer.capabilities;
  const canSubscribe = isRecord(resources) && resources.subscribe !== undefined && resources.subscribe !== false;
  const create = (method: string, description: string, input: z.ZodObject, run: Handler) =>
    defineAction(MCP_CATEGORY, { ...commonFields(access, spec, method), description, effect: "read", input, run });
  /** An action that sends its arguments as the parameters of the method. */
  const createSending = (
    method: string,
    description: string,
    input: z.ZodObject,
    read = (got: JsonObject): unknown => got,
  ) =>
    create(method, description, input, async (params, context) =>
      read(await sendRequest(access, spec, { method, params }, context)),
    );
  const none = z.strictObject({});
  const uri = z.strictObject({ uri: z.string().min(1) });
  const actions: Action[] = [];
  if (resources !== undefined) {
    const what = "files, records and other things to read, and the templates of their URIs";
    const list = () => ({ resources: offer.resources, resourceTemplates: offer.resourceTemplates });
    actions.push(create("resources/list", `List the resources of ${name}: ${what}.`, none, list));
    const read: Handler = async (params, context) => {
      // A person approves the digests of a skill's files before a model gets them.
      if (hasSkills(offer.capabilities) && isSkillUri(String(params.uri), offer.tools)) throw skillFileError();
      return readResourceResult(await sendRequest(access, spec, { method: "resources/read", params }, context));
    };
    actions.push(create("resources/read", `Read a resource of ${name} by its URI.`, uri, read));
  }
  if (canSubscribe) {
    actions.push(createSending("resources/subscribe", `Subscribe to changes of a resource of ${name}.`, uri));
    actions.push(createSending("resources/unsubscribe", `Unsubscribe from changes of a resource of ${name}.`, uri));
  }
  if (prompts !== undefined) {
    const list = () => ({ prompts: offer.prompts });
    actions.push(create("prompts/list", `List the prepared prompts of ${name} and their arguments.`, none, list));
    const input = z.strictObject({ name: z.string().min(1), arguments: z.record(z.string(), z.string()).optional() });
    actions.push(createSending("prompts/get", `Get a prepared prompt of ${name}, filled in.`, input, readPromptResult));
  }
  if (completions !== undefined) {
    const argument = z.looseObject({ name: z.string(), value: z.string() });
    const input = z.looseObject({ ref: z.looseObject({ type: z.string() }), argument });
    const description = `Ask ${name} which values an argument of a prompt or of a resource's URI may have.`;
    actions.push(createSending("completion/complete", description, input));
  }
  return actions;
}

const skillFileError = (): QmError =>
  new QmError("invalid_arguments", "this is a file of a skill, which is read with the skill's own action", {
    hint: "Call the skill, with `file` for one of its files.",
  });

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
      const names = tools.map((tool) => actionName(MCP_CATEGORY, toDefinitionEntry(name, tool))).filter(sees);
      return { server: name, actions: names, hint: "Call them by these names, or describe them first." };
    },
  });
}

/** The actions of a server whose tools are unknown: all that the policy needs to decide who may start it. */
export function createPendingSource(access: ServerAccess, spec: ServerSpec): PendingSource {
  const prefix = actionName(MCP_CATEGORY, toMethodEntry(spec.name, ""));
  const connect = createConnectAction(access, spec);
  return {
    name: spec.name,
    prefix,
    askedBy: LIST_TOOLS,
    connect,
    expect(name) {
      // Annotations are unknown, so only the configuration says more than the worst effect.
      const tool = { name: name.slice(prefix.length), annotations: { destructiveHint: false } };
      const { enabled, effect, tags } = resolveToolTraits(tool, { ...spec, trustAnnotations: true });
      return enabled ? { ...connect, name, entry: getEntry(name), effect, tags } : undefined;
    },
  };
}

function commonFields(access: ServerAccess, { name, callTimeoutMs }: ServerSpec, method: string) {
  return {
    entry: toMethodEntry(name, method),
    idempotent: true,
    source: toServerSource(name),
    ...omitUndefined({ timeoutMs: callTimeoutMs }),
    readiness: () => getReadiness(access, name),
  };
}
