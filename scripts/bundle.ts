import { join } from "node:path";
import { build, type RolldownOutput } from "rolldown";

export interface Bundle {
  /** The name of each output file, without ".js", and its source. */
  readonly input: Readonly<Record<string, string>>;
  readonly folder: string;
  /** Default: `esm`. */
  readonly format?: "esm" | "cjs";
  /** Replaces global names in the source. */
  readonly define?: Readonly<Record<string, string>>;
  /** Whether to remove what the folder contains. Default: true. */
  readonly clean?: boolean;
  /** Packages that are imported and not bundled. The default is the list for the published command. */
  readonly external?: (id: string) => boolean;
}

const root = join(import.meta.dirname, "..");
const shims = join(import.meta.dirname, "sdk-shims.ts");
// Native code, and what most runs do not need: a few megabytes of data, and the providers of language models.
const isHeavy = (id: string) => /^(?:@photostructure\/sqlite$|gpt-tokenizer\/|@ai-sdk\/)/.test(id);

/** Bundles sources with their packages. A warning is an error. */
export function bundle(options: Bundle): Promise<RolldownOutput> {
  const { input, folder, format = "esm", define = {}, clean = true, external = isHeavy } = options;
  const name = format === "esm" ? "[name].js" : "[name].cjs";
  return build({
    cwd: root,
    input: { ...input },
    platform: "node",
    resolve: {
      // Prefer a package's ES module form, because the requires of other forms cannot always be resolved.
      mainFields: ["module", "main"],
      alias: { "@modelcontextprotocol/client/_shims": shims, "@modelcontextprotocol/server/_shims": shims },
    },
    external,
    transform: { define: { ...define } },
    output: {
      dir: folder,
      format,
      // The command's own loader has no `import()`.
      dynamicImportInCjs: false,
      cleanDir: clean,
      entryFileNames: name,
      chunkFileNames: name,
      comments: { jsdoc: false },
    },
    onLog(level, { message }) {
      if (level === "warn") throw new Error(message);
    },
  });
}
