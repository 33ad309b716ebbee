import { QmError } from "../core/errors.ts";

/** Throws for a handle: notes and collections are not in the catalog, and have a command of their own. */
export async function requireListed(name: string): Promise<void> {
  const { parseHandle } = await import("../infospace/handle.ts");
  if (parseHandle(name) === undefined) return;
  throw new QmError("not_found", `${name} is not in the catalog: it is something kept`, {
    hint: `See it with: qm notes show ${name}. What a caller may do with it, the policy says of ${name} and of infospace__load.`,
  });
}
