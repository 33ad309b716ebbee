import type { createSecretMasker } from "../ledger/redact.ts";
import { scanDefinition } from "../mcp/manifests/scan/scan-definition.ts";
import { createOfferedNames } from "../mcp/manifests/scan/tool-names.ts";

export type SecretMasker = ReturnType<typeof createSecretMasker>;

/** Checks of texts that some callers store and the models of others read. */
export function createTextChecks(mask: SecretMasker) {
  const names = createOfferedNames([], []);
  return {
    /** The serious signs that a text misleads models. */
    scan(text: string): readonly string[] {
      const findings = scanDefinition({ name: "", description: text, inputSchema: {} }, names);
      return [...new Set(findings.filter(({ severity }) => severity === "serious").map(({ kind }) => kind))];
    },
    /** Whether a text holds a secret that the configuration knows. */
    holdsSecret: (text: string): boolean => mask(text).masked.length > 0,
  };
}
