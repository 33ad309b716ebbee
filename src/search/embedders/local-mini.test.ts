import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { wordVector } from "../semantic/testing.ts";
import { createEmbedder } from "./create-embedder.ts";
import type { Embedder } from "./embedder.ts";
import type { ModuleLoader } from "./local-mini.ts";

const never = new AbortController().signal;

test("explains how to install the missing package", () => {
  expect(createEmbedder({ class: "local-mini", modelPath: modelFolder() })).toEqual({
    unavailable: "the package @huggingface/transformers is not installed",
    hint: "Run: npm i @huggingface/transformers",
  });
});

test("explains where to put a missing model", () => {
  const { modules } = scripted();

  expect(createEmbedder({ class: "local-mini" }, modules)).toMatchObject({
    unavailable: "no model is given",
    hint: expect.stringContaining("all-MiniLM-L6-v2"),
  });
  expect(createEmbedder({ class: "local-mini", modelPath: "/nowhere" }, modules)).toMatchObject({
    unavailable: "there is no model in /nowhere",
  });
});

test("loads the model once, only from its folder, and makes unit vectors", async () => {
  const { modules, pipeline, extractor } = scripted();
  const folder = modelFolder();
  const embedder = chosen(folder, modules);
  const texts = Array.from({ length: 20 }, (_, at) => `word${at}`);
  expect(modules.load).not.toHaveBeenCalled();

  const documents = await embedder.embed(texts, "document", never);
  const [query] = await embedder.embed(["red"], "query", never);
  await embedder.close?.();

  expect(pipeline.mock.calls).toEqual([
    ["feature-extraction", folder, { dtype: "q8", device: "cpu", local_files_only: true }],
  ]);
  expect(extractor.mock.calls.map(([batch, options]) => [batch.length, options])).toEqual(
    [16, 4, 1].map((size) => [size, { pooling: "mean", normalize: true }]),
  );
  expect(documents.map((vector) => [...vector])).toEqual(texts.map((text) => wordVector(text)));
  expect([...(query ?? [])]).toEqual(wordVector("red"));
  expect(extractor.dispose).toHaveBeenCalledOnce();
});

test("has another fingerprint for another model in the folder", () => {
  const { modules } = scripted();
  const folder = modelFolder();
  const before = chosen(folder, modules).fingerprint;

  writeFileSync(join(folder, "config.json"), '{"hidden_size":768}');

  expect(before).toMatch(/^local-mini:all-MiniLM-L6-v2:[0-9a-f]{8}$/);
  expect(chosen(folder, modules).fingerprint).not.toBe(before);
});

test("has a fingerprint of the weights: their size and both ends", () => {
  const { modules } = scripted();
  const KIB = 1024;
  const withWeights = (size: number, at?: number, file = "model_quantized.onnx") => {
    const folder = modelFolder();
    const weights = Buffer.alloc(size, 1);
    if (at !== undefined) weights[at] = 2;
    mkdirSync(join(folder, "onnx"));
    writeFileSync(join(folder, "onnx", file), weights);
    return chosen(folder, modules).fingerprint;
  };

  const kinds = [
    chosen(modelFolder(), modules).fingerprint,
    withWeights(300 * KIB),
    withWeights(300 * KIB + 1),
    withWeights(300 * KIB, 64 * KIB - 1),
    withWeights(300 * KIB, 300 * KIB - 64 * KIB),
    withWeights(300 * KIB, undefined, "model.onnx"),
    withWeights(10),
  ];

  expect(new Set(kinds).size).toBe(kinds.length);
  expect(withWeights(300 * KIB)).toBe(kinds[1]);
  expect(withWeights(10)).toBe(kinds[6]);
});

test("leaves the settings of the package alone", async () => {
  const { modules, env } = scripted();

  await chosen(modelFolder(), modules).embed(["red"], "query", never);

  expect(env).toEqual({ allowRemoteModels: true, localModelPath: "/models/" });
});

test("reports a model that cannot be loaded, and retries the next time", async () => {
  const { modules, pipeline } = scripted();
  const embedder = chosen(modelFolder(), modules);
  pipeline.mockRejectedValueOnce(new Error("no onnx/model_quantized.onnx"));

  await expect(embedder.embed(["red"], "document", never)).rejects.toMatchObject({
    code: "embedder_failed",
    message: "the model all-MiniLM-L6-v2 cannot be loaded: no onnx/model_quantized.onnx",
    hint: expect.stringContaining("ONNX"),
  });
  expect(await embedder.embed(["red"], "document", never)).toHaveLength(1);
});

test("refuses invalid vectors, and stops on abort", async () => {
  const { modules, extractor } = scripted();
  const embedder = chosen(modelFolder(), modules);
  extractor.mockResolvedValueOnce({ tolist: () => [[Number.NaN]] });

  await expect(embedder.embed(["red"], "document", never)).rejects.toMatchObject({ code: "embedder_failed" });
  await expect(embedder.embed(["red"], "document", AbortSignal.abort(new Error("stop")))).rejects.toThrow("stop");
  await createdButUnused(modules).close?.();
});

/** A module with the interface of transformers.js. */
function scripted() {
  const env = { allowRemoteModels: true, localModelPath: "/models/" };
  const extract = vi.fn(async (texts: readonly string[], _options: unknown) => ({
    tolist: (): unknown => texts.map((text) => wordVector(text)),
  }));
  const extractor = Object.assign(extract, { dispose: vi.fn(async () => {}) });
  const pipeline = vi.fn(async (_task: string, _model: string, _options: unknown) => extractor);
  const modules = { has: () => true, load: vi.fn(async (_name: string) => ({ env, pipeline })) } satisfies ModuleLoader;
  return { modules, env, pipeline, extractor };
}

function modelFolder(): string {
  const parent = mkdtempSync(join(tmpdir(), "qm-model-"));
  onTestFinished(() => rmSync(parent, { recursive: true }));
  const folder = join(parent, "all-MiniLM-L6-v2");
  mkdirSync(folder);
  writeFileSync(join(folder, "config.json"), '{"hidden_size":384}');
  return folder;
}

function chosen(modelPath: string, modules: ModuleLoader): Embedder {
  const embedder = createEmbedder({ class: "local-mini", modelPath }, modules);
  if (!("embedder" in embedder)) throw new Error("no embedder");
  return embedder.embedder;
}

function createdButUnused(modules: ModuleLoader): Embedder {
  return chosen(modelFolder(), modules);
}
