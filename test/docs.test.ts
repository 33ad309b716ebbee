import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { describe, expect, test } from "vitest";
import { exitCodes } from "../src/cli/exit-codes.ts";
import { main } from "../src/cli/main.ts";
import { packageFacts } from "../src/cli/package-facts.ts";
import { parseConfig } from "../src/config/parse.ts";
import { errorCodes } from "../src/core/errors.ts";
import { eventShapes } from "../src/core/events.ts";
import { CALL_VARIABLES, compileCondition } from "../src/core/expression.ts";
import { effects, layers, outcomeStatuses, universalTools, words } from "./fixtures/documented.ts";

const root = resolve(import.meta.dirname, "..");
const pages = [
  ...readdirSync(root).filter((name) => name.endsWith(".md")),
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];
const examples = readdirSync(join(root, "examples")).filter((name) => name.endsWith(".ts"));
