import { join } from "node:path";
import { build, type RolldownOutput } from "rolldown";

export interface Bundle {
  /** The name of each output file, without ".js", and its source. */
  readonly input: Readonly<Record<string, string>>;
  readonly folder: string;
  /** Packages that are imported and not bundled. The default is the list for the published command. */
  readonly external?: (id: string) => boolean;
}

const root = join(import.meta.dirname, "..");
const shims = join(import.meta.dirname, "sdk-shims.ts");
// Native code, and what most runs do not need: a few megabytes of data, and the providers of language models.
const isHeavy = (id: string) => /^(?:@photostructure\/sqlite$|gpt-tokenizer\/|@ai-sdk\/)/.test(id);

/** Bundles sources with their packages. A warning is an error. */
export function bundle({ input, folder, external = isHeavy }: Bundle): Promise<RolldownOutput> {
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
    output: {
      dir: folder,
      cleanDir: true,
      entryFileNames: "[name].js",
      chunkFileNames: "[name].js",
      comments: { jsdoc: false },
    },
    onLog(level, { message }) {
      if (level === "warn") throw new Error(message);
    },
  });
}
