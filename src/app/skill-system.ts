import type { Provider } from "../catalog/define-action.ts";
import type { JsonSchema } from "../core/action.ts";
import type { Caller } from "../core/caller.ts";
import type { UnstampedEvent } from "../core/events.ts";
import type { Runtime } from "../core/runtime.ts";
import type { MethodServices } from "../providers/skill/method/method-services.ts";
import type { SkillTrust } from "../providers/skill/skill-trust.ts";
import type { Store } from "../store/open-store.ts";
import type { ResolvedOptions } from "./options.ts";
import { systemProcess } from "./system-runtime.ts";

/** Skills of folders, and which of them are trusted. Their code is loaded only if there are folders. */
export function createSkillSystem(parts: {
  readonly options: Pick<ResolvedOptions, "skills" | "models">;
  readonly store: Pick<Store, "skillPins">;
  readonly methods: MethodServices;
  readonly runtime: Runtime;
  record(caller: Caller | undefined, event: UnstampedEvent): number;
  readonly onProblem: (problem: string) => void;
}) {
  const { options, store, methods, runtime, record, onProblem } = parts;

  async function openTrust(): Promise<SkillTrust> {
    const { createSkillTrust } = await import("../providers/skill/skill-trust.ts");
    const { scanDefinition } = await import("../mcp/manifests/scan/scan-definition.ts");
    const { createOfferedNames } = await import("../mcp/manifests/scan/tool-names.ts");
    const names = createOfferedNames([], []);
    return createSkillTrust({
      pins: options.skills?.pins ?? store.skillPins,
      runtime,
      record,
      scan({ name, description, fields }) {
        const findings = scanDefinition({ name, description, inputSchema: fields as JsonSchema }, names);
        return [...new Set(findings.filter(({ severity }) => severity === "serious").map(({ kind }) => kind))];
      },
    });
  }

  async function openProviders(): Promise<readonly Provider[]> {
    const { roots = [] } = options.skills ?? {};
    if (roots.length === 0) return [];
    const { skillProvider } = await import("../providers/skill/skill-provider.ts");
    const services = { trust: await openTrust(), model: options.models.get("default"), methods };
    return [
      skillProvider({
        roots,
        ...services,
        programHost: { ...systemProcess, sandbox: options.skills?.sandbox },
        onProblem,
      }),
    ];
  }

  return { openTrust, openProviders };
}
