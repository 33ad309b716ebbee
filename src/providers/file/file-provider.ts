import type { Provider } from "../../catalog/define-action.ts";
import { deleteAction } from "./delete.ts";
import { editAction } from "./edit.ts";
import { type FileLimits, openRoot } from "./file-root.ts";
import { globAction } from "./glob.ts";
import { grepAction } from "./grep.ts";
import { listAction } from "./list.ts";
import { readAction } from "./read.ts";
import { watchAction } from "./watch.ts";
import { writeAction } from "./write.ts";

export interface FileProviderOptions extends Partial<FileLimits> {
  readonly root: string;
  readonly readOnly?: boolean;
  /** Absolute paths, existing or not, that no action can reach by any name. Thousands of files make calls slower. */
  readonly protect?: readonly string[];
  /**
   * Names of files and folders that no action can reach at any depth below the root, such as `quartermaster.yaml`. A `*`
   * at the end stands for any ending. Spellings that some file system takes for the same name match too. Hard links with
   * another name do not.
   */
  readonly protectNames?: readonly string[];
}

/**
 * Actions on the files of one folder. No path leads out of the folder, even if links are added during a call. Hard links
 * cannot be told from files, so the folder should not have any to files elsewhere. Protected files are known by any name.
 */
export function fileProvider(options: FileProviderOptions): Provider {
  const { root: path, readOnly = false, protect = [], protectNames = [], ...limits } = options;
  const root = openRoot(path, limits, { paths: protect, names: protectNames });
  const reading = [globAction(root), grepAction(root), listAction(root), readAction(root), watchAction(root)];
  const writing = [deleteAction(root), editAction(root), writeAction(root)];
  const actions = readOnly ? reading : [...reading, ...writing];
  return {
    category: "file",
    capability: readOnly
      ? "Look at the text files of one folder and find things in them."
      : "Look at the text files of one folder, find things in them, and create, change or remove them.",
    list: () => actions,
  };
}
