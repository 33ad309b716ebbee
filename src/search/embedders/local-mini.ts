import { hash } from "node:crypto";
import { closeSync, existsSync, fstatSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join, resolve } from "node:path";
import { fingerprint } from "../../core/action.ts";
import { getErrorMessage, QmError } from "../../core/errors.ts";
import { isRecord } from "../../core/json.ts";
import { type Embedder, toUnitVectors } from "./embedder.ts";

/** A small model in this process. The user installs the package that runs it. */
export interface LocalMiniChoice {
  readonly class: "local-mini";
  /** The folder with the files of the `all-MiniLM-L6-v2` repository. Nothing is downloaded. */
  readonly modelPath?: string;
}

export type ModuleLoader = { has(name: string): boolean; load(name: string): Promise<unknown> };

const PACKAGE = "@huggingface/transformers";
const MODEL = "all-MiniLM-L6-v2";
const BATCH_TEXTS = 16;
const END_BYTES = 64 * 1024;

export function createLocalMiniEmbedder({ modelPath }: LocalMiniChoice, modules: ModuleLoader = installedModules) {
  if (!modules.has(PACKAGE)) {
    return { unavailable: `the package ${PACKAGE} is not installed`, hint: `Run: npm i ${PACKAGE}` };
  }
  if (modelPath === undefined || !existsSync(join(modelPath, "config.json"))) {
    return {
      unavailable: modelPath === undefined ? "no model is given" : `there is no model in ${modelPath}`,
      hint: `Put the files of ${MODEL} (config.json, tokenizer.json, onnx/) into a folder, and give its path.`,
    };
  }
  return { embedder: createModelEmbedder(modelPath, modules) };
}

function createModelEmbedder(modelPath: string, modules: ModuleLoader): Embedder {
  const config = readFileSync(join(modelPath, "config.json"), "utf8");
  const model = basename(resolve(modelPath));
  let extractor: Promise<Extractor> | undefined;

  // Loading takes seconds. It is retried only after a failure.
  function loadOnce(): Promise<Extractor> {
    extractor ??= loadExtractor(modelPath, modules).catch((thrown) => {
      extractor = undefined;
      throw modelError(`the model ${model} cannot be loaded: ${getErrorMessage(thrown)}`, thrown);
    });
    return extractor;
  }

  return {
    // Changes if another model is put into the folder.
    fingerprint: `local-mini:${model}:${fingerprint([config, fingerprintWeights(modelPath)]).slice(0, 8)}`,
    floor: 0.2,
    async embed(texts, _purpose, signal) {
      const vectors: Float32Array[] = [];
      for (let from = 0; from < texts.length; from += BATCH_TEXTS) {
        signal.throwIfAborted();
        const batch = texts.slice(from, from + BATCH_TEXTS);
        const extract = await loadOnce();
        const vectorList = (await extract(batch, { pooling: "mean", normalize: true })).tolist();
        const read = toUnitVectors(Array.isArray(vectorList) ? vectorList : [], batch.length);
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

/** Names, sizes and hashes of both ends of the weight files, which can be large. */
function fingerprintWeights(modelPath: string): readonly (readonly [name: string, size: number, ends: string])[] {
  const folder = join(modelPath, "onnx");
  const files = existsSync(folder) ? readdirSync(folder) : [];
  const weights = files.filter((file) => file.includes(".onnx")).sort();
  return weights.map((file) => [file, ...readSizeAndEnds(join(folder, file))] as const);
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

type Transformers = { pipeline(task: "feature-extraction", model: string, options: object): Promise<Extractor> };

interface Extractor {
  (texts: readonly string[], options: { pooling: "mean"; normalize: boolean }): Promise<{ tolist(): unknown }>;
  dispose?(): Promise<unknown>;
}

async function loadExtractor(modelPath: string, modules: ModuleLoader): Promise<Extractor> {
  const { pipeline } = (await modules.load(PACKAGE)) as Transformers;
  // An absolute path cannot be mistaken for the name of a remote model.
  return pipeline("feature-extraction", resolve(modelPath), { dtype: "q8", device: "cpu", local_files_only: true });
}

const modelError = (message: string, cause?: unknown): QmError =>
  new QmError("embedder_failed", message, {
    hint: `Check that the folder has the files of an ONNX model such as ${MODEL}, and that ${PACKAGE} works.`,
    cause,
  });

const require = createRequire(import.meta.url);

const installedModules: ModuleLoader = {
  has(name) {
    try {
      require.resolve(name);
      return true;
    } catch (thrown) {
      // Installed, but for `import` only.
      return isRecord(thrown) && thrown.code === "ERR_PACKAGE_PATH_NOT_EXPORTED";
    }
  },
  // Not a literal, so that neither the compiler nor a bundler requires the optional package.
  load: (name) => import(/* @vite-ignore */ /* webpackIgnore: true */ name),
};
