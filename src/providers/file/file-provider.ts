import type { Provider } from "../../catalog/define-action.ts";
import { deleteAction } from "./delete.ts";
import { editAction } from "./edit.ts";
import { type FileLimits, openRoot } from "./file-root.ts";
import { globAction } from "./glob.ts";
import { grepAction } from "./grep.ts";
import { listAction } from "./list.ts";
import { readAction } from "./read.ts";
import { writeAction } from "./write.ts";

export interface FileProviderOptions extends Partial<FileLimits> {
  /** The folder that everything is confined to, links included. */
  readonly root: string;
  /** Offer nothing that changes a file. */
  readonly readOnly?: boolean;
  /**
   * Absolute paths of files and folders that no action reaches by any name, whether they exist yet or not. Looked up
   * on every call, so a folder with many thousand files makes calls slower.
   */
  readonly protect?: readonly string[];
  /**
   * Names of files and folders that no action reaches at any depth below the root, such as `quartermaster.yaml`; with
   * a `*` at the end, every name that begins so. A name counts in any spelling that some file system takes for the
   * same. A hard link by another name is not known.
   */
  readonly protectNames?: readonly string[];
}

/**
 * Files of one folder as actions. No path leads out of the folder, whatever links are in it or are put there
 * meanwhile; hard links cannot be told from files, so the folder should not hold any to files elsewhere, other than
 * protected ones, which are known by any name.
 */
export function fileProvider(options: FileProviderOptions): Provider {
  const { root: path, readOnly = false, protect = [], protectNames = [], ...limits } = options;
  const root = openRoot(path, limits, { paths: protect, names: protectNames });
  const reading = [globAction(root), grepAction(root), listAction(root), readAction(root)];
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
