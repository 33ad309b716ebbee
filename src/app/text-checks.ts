import type { TextChecks } from "../core/text-checks.ts";
import type { createSecretMasker } from "../ledger/mask.ts";
import { scanDefinition } from "../mcp/manifests/scan/scan-definition.ts";
import { createOfferedNames } from "../mcp/manifests/scan/tool-names.ts";

export type SecretMasker = ReturnType<typeof createSecretMasker>;

export function createTextChecks(mask: SecretMasker): TextChecks {
  const names = createOfferedNames([], []);
  return {
    scan(text) {
      const findings = scanDefinition({ name: "", description: text, inputSchema: {} }, names);
      return [...new Set(findings.filter(({ severity }) => severity === "serious").map(({ kind }) => kind))];
    },
    holdsSecret: (text) => mask(text).masked.length > 0,
  };
}
