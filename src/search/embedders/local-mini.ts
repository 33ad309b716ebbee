import { hash } from "node:crypto";
import { closeSync, existsSync, fstatSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
import { fingerprint } from "../../core/action.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import type { ChosenEmbedder, Embedder } from "./embedder.ts";
import { toUnitVectors } from "./embedder.ts";

/** A small model in this process, run by a package that the user has installed. */
export interface LocalMiniChoice {
  readonly class: "local-mini";
  /** The folder with the model's files, as they are in the repository of `all-MiniLM-L6-v2`. Nothing is downloaded. */
  readonly modelPath?: string;
}

/** Packages that may be there or not. */
export interface ModuleLoader {
  has(name: string): boolean;
  load(name: string): Promise<unknown>;
}

const PACKAGE = "@huggingface/transformers";
const MODEL = "all-MiniLM-L6-v2";
const BATCH_TEXTS = 16;
const END_BYTES = 64 * 1024;

export function createLocalMiniEmbedder(
  { modelPath }: LocalMiniChoice,
  modules: ModuleLoader = installedModules,
): ChosenEmbedder {
  if (!modules.has(PACKAGE)) {
    return { unavailable: `the package ${PACKAGE} is not installed`, hint: `Run: npm i ${PACKAGE}` };
  }
  const config = modelPath === undefined ? undefined : join(modelPath, "config.json");
  if (modelPath === undefined || config === undefined || !existsSync(config)) {
    return {
      unavailable: modelPath === undefined ? "no model is given" : `there is no model in ${modelPath}`,
      hint: `Put the files of ${MODEL} (config.json, tokenizer.json, onnx/) into a folder, and give its path.`,
    };
  }
  return { embedder: createModelEmbedder(modelPath, config, modules) };
}

function createModelEmbedder(modelPath: string, config: string, modules: ModuleLoader): Embedder {
  const model = basename(resolve(modelPath));
  let extractor: Promise<Extractor> | undefined;

  // Loading takes seconds: once, when it is needed, and again only after it has failed.
  function loadOnce(): Promise<Extractor> {
    extractor ??= loadExtractor(modelPath, modules).catch((thrown) => {
      extractor = undefined;
      throw modelError(`the model ${model} cannot be loaded: ${getErrorMessage(thrown)}`, thrown);
    });
    return extractor;
  }

  return {
    // Another model put into the same folder is another model.
    fingerprint: `local-mini:${model}:${fingerprint([readFileSync(config, "utf8"), fingerprintWeights(modelPath)]).slice(0, 8)}`,
    floor: 0.2,
    async embed(texts, _purpose, signal) {
      const vectors: Float32Array[] = [];
      for (let from = 0; from < texts.length; from += BATCH_TEXTS) {
        signal.throwIfAborted();
        const batch = texts.slice(from, from + BATCH_TEXTS);
        const read = toUnitVectors(await extractVectors(await loadOnce(), batch), batch.length);
        if ("problem" in read) throw modelError(`the model ${model} answered with ${read.problem}`);
        vectors.push(...read.vectors);
      }
      return vectors;
    },
    async close() {
      await (await extractor?.catch(() => undefined))?.dispose?.();
    },
  };
}

/** What tells one model's weights from another's, without reading all of them: they can be large. */
function fingerprintWeights(modelPath: string): readonly (readonly [name: string, size: number, ends: string])[] {
  const folder = join(modelPath, "onnx");
  const files = existsSync(folder) ? readdirSync(folder) : [];
  return files
    .filter((file) => file.includes(".onnx"))
    .sort()
    .map((file) => [file, ...readSizeAndEnds(join(folder, file))] as const);
}

function readSizeAndEnds(path: string): readonly [number, string] {
  const file = openSync(path, "r");
  try {
    const { size } = fstatSync(file);
    const ends = Buffer.alloc(2 * END_BYTES);
    readSync(file, ends, 0, END_BYTES, 0);
    readSync(file, ends, END_BYTES, END_BYTES, Math.max(0, size - END_BYTES));
    return [size, hash("sha256", ends, "hex")];
  } finally {
    closeSync(file);
  }
}

/** Of transformers.js, what is used. Its settings are the host's: what is wanted here is said in the call. */
interface Transformers {
  pipeline(
    task: "feature-extraction",
    model: string,
    options: { dtype: "q8"; device: "cpu"; local_files_only: true },
  ): Promise<Extractor>;
}

interface Extractor {
  (texts: readonly string[], options: { pooling: "mean"; normalize: boolean }): Promise<{ tolist(): unknown }>;
  dispose?(): Promise<unknown>;
}

async function loadExtractor(modelPath: string, modules: ModuleLoader): Promise<Extractor> {
  const { pipeline } = (await modules.load(PACKAGE)) as Transformers;
  // A whole path cannot be the name of a model elsewhere, so it is taken as it is.
  return pipeline("feature-extraction", resolve(modelPath), { dtype: "q8", device: "cpu", local_files_only: true });
}

async function extractVectors(extractor: Extractor, texts: readonly string[]): Promise<readonly unknown[]> {
  const vectors = (await extractor(texts, { pooling: "mean", normalize: true })).tolist();
  return Array.isArray(vectors) ? vectors : [];
}

function modelError(message: string, cause?: unknown): QmError {
  return new QmError("embedder_failed", message, {
    hint: `See that the folder holds the files of an ONNX model such as ${MODEL}, and that ${PACKAGE} works.`,
    cause,
  });
}

const require = createRequire(import.meta.url);

const installedModules: ModuleLoader = {
  has(name) {
    try {
      require.resolve(name);
      return true;
    } catch (thrown) {
      // There, but made for `import` alone.
      return isRecord(thrown) && thrown.code === "ERR_PACKAGE_PATH_NOT_EXPORTED";
    }
  },
  // Not a literal, so that neither the compiler nor a bundler looks for a package that need not be there.
  load: (name) => import(/* @vite-ignore */ /* webpackIgnore: true */ name),
};
