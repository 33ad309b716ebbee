import { join } from "node:path";
import { build, type OutputChunk, type Plugin, type RolldownOutput } from "rolldown";

export interface Bundle {
  /** The name of each output file, without ".js", and its source. */
  readonly input: Readonly<Record<string, string>>;
  readonly folder: string;
  /** Default: `esm`. `launcher`: CommonJS with `import()`, in a file that ends with ".js". */
  readonly format?: "esm" | "cjs" | "launcher";
  /** Replaces global names in the source. */
  readonly define?: Readonly<Record<string, string>>;
  /** Whether to remove what the folder contains. Default: true. */
  readonly clean?: boolean;
  /** Packages that are imported and not bundled. Default: native code. */
  readonly external?: (id: string) => boolean;
  /** Names the file of a module that is not our own. Absent: it is put where it is used. */
  readonly nameShared?: (id: string) => string;
}

const root = join(import.meta.dirname, "..");
const shims = join(import.meta.dirname, "sdk-shims.ts");
const isNative = (id: string) => id === "@photostructure/sqlite";
const group = { debugName: "packages", test: /node_modules|sdk-shims/, includeDependenciesRecursively: false };

/**
 * Escapes every character beyond ASCII. Node keeps the text of its code in memory, and takes two bytes for each character
 * of a file with a single one of them.
 */
const escapeOthers: Plugin = {
  name: "escape-others",
  generateBundle(_options, files) {
    for (const file of Object.values(files)) if (file.type === "chunk") file.code = toAscii(file);
  },
};

function toAscii({ fileName, code }: OutputChunk): string {
  if (/\.raw`[^`]*[\x80-\uffff]/.test(code)) throw new Error(`${fileName} has a raw text beyond ASCII`);
  // A character that is escaped already has its backslash.
  return code.replace(/(\\*)([\x80-\uffff])/g, (_, slashes: string, unit: string) => {
    const opening = slashes.length % 2 === 1 ? "u" : "\\u";
    return `${slashes}${opening}${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** Bundles sources with their packages. A warning is an error. */
export function bundle(options: Bundle): Promise<RolldownOutput> {
  const { input, folder, format = "esm", define = {}, clean = true, external = isNative, nameShared } = options;
  const name = format === "cjs" ? "[name].cjs" : "[name].js";
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
    plugins: format === "cjs" ? [escapeOthers] : [],
    preserveEntrySignatures: nameShared === undefined ? "exports-only" : "allow-extension",
    transform: { define: { ...define } },
    output: {
      dir: folder,
      format: format === "esm" ? "esm" : "cjs",
      // The command's own loader has no `import()`.
      dynamicImportInCjs: format === "launcher",
      cleanDir: clean,
      entryFileNames: name,
      chunkFileNames: name,
      comments: { jsdoc: false },
      ...(nameShared && { codeSplitting: { groups: [{ ...group, name: nameShared }] } }),
    },
    onLog(level, { message }) {
      if (level === "warn") throw new Error(message);
    },
  });
}
