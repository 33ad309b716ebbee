import type { Explanation } from "../index.ts";

/** What an operator would do in the configuration to let the action through: one line for each layer in its way. */
export function whatToChange(explanation: Explanation, configPath: string | undefined): readonly string[] {
  const objecting = explanation.layers.filter(({ says }) => says !== "nothing");
  if (objecting.length === 0 && explanation.because !== undefined)
    return ["It appears when the caller sees an action that it serves."];
  if (objecting.length === 0)
    return [`Nothing stands in its way before it is called; ${JUDGED_LATER} are judged then.`];
  const changes = objecting.map(
    ({ layer, rule = "", about = explanation.action }) => `  ${changeOf(layer, rule, about, explanation.actor)}`,
  );
  return [
    `To change that, in ${configPath ?? "quartermaster.yaml (`qm init` writes one)"}:`,
    ...changes,
    `When it is called, ${JUDGED_LATER} are judged too.`,
  ];
}

const JUDGED_LATER = "rules about arguments, budgets and approval conditions";

type Layer = Explanation["layers"][number]["layer"];

function changeOf(layer: Layer, rule: string, action: string, actor: string): string {
  switch (layer) {
    case "tool-policy":
      return toolPolicyChange(rule, action);
    case "gates":
      return `bring about what the gate waits for (${rule})`;
    case "tag-rules":
      return `change or remove the rule ${JSON.stringify(rule)} of policy.rules`;
    case "visibility":
      return "it is the visibility policy of the host program: change it there";
    case "actor":
      return actorChange(rule, action, actor);
    case "budget":
      return `raise policy.budgets.${rule}`;
    case "approval":
      return "the action itself asks for a person's approval: change where it is registered";
  }
}

function toolPolicyChange(rule: string, action: string): string {
  const denied = /denied: (.*)$/.exec(rule)?.[1];
  if (denied !== undefined) return `take ${JSON.stringify(denied)} out of policy.denied`;
  const tag = /require_tags: (.*)$/.exec(rule)?.[1];
  if (tag !== undefined) return `the action has no tag ${JSON.stringify(tag)}: take that out of policy.require_tags`;
  return `add ${JSON.stringify(action)} to policy.allowed`;
}

function actorChange(rule: string, action: string, actor: string): string {
  return rule.startsWith("no actor")
    ? `add the actor: actors.${actor}, with tools: [${JSON.stringify(action)}]`
    : `add ${JSON.stringify(action)} to actors.${actor}.tools`;
}
