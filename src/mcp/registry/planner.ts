import type { Inputs } from "./answers.ts";
import type { InstallPlan } from "./install-plan.ts";
import { type LocalRequest, planLocal } from "./plan-local.ts";
import { type PackageDeps, type PackageRequest, planFromPackage } from "./plan-package.ts";
import { planFromRegistry, type RegistryPlanOptions } from "./plan-registry.ts";
import type { Registry } from "./registry.ts";

/** What somebody wants to have installed. */
export type PlanRequest =
  | {
      readonly from: "registry";
      readonly id: string;
      readonly version?: string | undefined;
      readonly name?: string | undefined;
      readonly choose?: string | undefined;
      readonly inputs: Inputs;
    }
  | ({ readonly from: "package" } & PackageRequest)
  | ({ readonly from: "local" } & LocalRequest);

export interface PlannerOptions
  extends PackageDeps,
    Pick<RegistryPlanOptions, "bundleFolder" | "hasCommand" | "platform" | "home"> {
  readonly registry: Pick<Registry, "get" | "url">;
  /** The names of the secrets that are stored. */
  readonly secretNames: () => Promise<readonly string[]>;
}

/** Makes plans out of requests of every kind. Nothing is changed by making one. */
export function createPlanner(
  options: PlannerOptions,
): (request: PlanRequest, signal?: AbortSignal) => Promise<InstallPlan> {
  const { registry, secretNames } = options;
  return async (request, signal) => {
    switch (request.from) {
      case "local":
        return planLocal(request);
      case "package":
        return planFromPackage(request, options, signal);
      case "registry": {
        const { id, version, name, choose, inputs } = request;
        const entry = await registry.get(id, { version, signal });
        const secrets = new Set(await secretNames());
        return planFromRegistry(entry, inputs, { ...options, registry: registry.url, secrets, name, choose }, signal);
      }
    }
  };
}
