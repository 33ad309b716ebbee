import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Provider } from "../../catalog/define-action.ts";
import { type FileCategory, openRoot } from "../file/file-root.ts";
import { globAction } from "../file/glob.ts";
import { grepAction } from "../file/grep.ts";
import { listAction } from "../file/list.ts";
import { readAction } from "../file/read.ts";

const OWN_FILES = ["README.md", "CHANGELOG.md", "LICENSE", "docs", "skills", "examples"];

const texts: FileCategory = {
  category: "qm_source",
  actions: {
    glob: {
      description: "Find files of Quartermaster's own documentation and source by name pattern.",
      examples: [{ args: { pattern: "docs/guides/*.md" } }],
    },
    grep: {
      description:
        "Search Quartermaster's own documentation and source for a pattern. Returns the lines, counted from 0 as in read.",
      examples: [{ args: { pattern: "read_only", path: "docs" } }],
    },
    list: {
      description: "List a folder of Quartermaster's own documentation and source.",
      examples: [{ args: {} }, { args: { path: "docs", depth: 2 } }],
    },
    read: {
      description:
        "Read a file of Quartermaster's own documentation or source, to find out how Quartermaster works or is configured.",
      examples: [{ args: { path: "docs/config.md" } }],
    },
  },
};

/** The documentation and source of Quartermaster itself, read-only. `folder`: where its package is. */
export function sourceProvider({ folder }: { readonly folder: string }): Provider {
  // An installed package has no source, only what was compiled from it.
  const code = existsSync(join(folder, "src")) ? "src" : "dist";
  const root = openRoot(folder, {}, { names: ["*.map"], only: [...OWN_FILES, code] }, texts);
  const actions = [globAction(root), grepAction(root), listAction(root), readAction(root)];
  return {
    category: "qm_source",
    capability: "Look up how Quartermaster itself works, in its own documentation and source.",
    list: () => actions,
  };
}
