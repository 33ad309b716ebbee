/**
 * The policy's decision on a resource. `hidden`: the caller must not learn that it exists. `asks`: a person may still
 * approve the use.
 */
export type ResourceAccess = "allowed" | "hidden" | { readonly refused: string; readonly asks?: true };

/** Whether the caller may see the resource in lists. A resource that needs approval is listed, as an action is. */
export const isListed = (access: ResourceAccess): boolean =>
  access === "allowed" || (access !== "hidden" && access.asks === true);
