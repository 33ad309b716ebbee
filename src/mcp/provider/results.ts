import { type ContentBlock, contentText, WithContent } from "../../core/content.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";

const SAID_LIMIT = 600;
/** An object with this many fields is a list in disguise, and each of them costs far more than an item of a list. */
const FIELD_LIMIT = 20_000;

/**
 * A tool's result as a handler answers it: its structured result as data where it has one, else its text. Throws
 * `action_failed` with what the tool said when it says that it failed.
 */
export function toolResult(tool: string, result: JsonObject): unknown {
  const blocks = blocksOf(result.content);
  const meta = isRecord(result._meta) ? { meta: result._meta as JsonObject } : {};
  const { structuredContent } = result;
  if (result.isError === true) {
    const said = contentText(blocks, SAID_LIMIT) || "it did not say why";
    throw new QmError("action_failed", `${tool} failed: ${said}`, { content: { blocks, ...meta } });
  }
  if (isWide(structuredContent)) {
    throw new QmError("action_failed", `${tool} answered an object with more than ${FIELD_LIMIT} fields`, {
      hint: "Ask for less at a time.",
    });
  }
  if (structuredContent !== undefined) return new WithContent(structuredContent, { blocks, structured: true, ...meta });
  const texts = blocks.map(plainText);
  const isText = texts.every((text) => text !== undefined);
  if (isText && texts.length === 1 && !("meta" in meta)) return texts[0];
  return new WithContent(isText ? texts.join("\n") : blocks, { blocks, ...meta });
}

function isWide(value: unknown): boolean {
  const open: unknown[] = [value];
  for (let part = open.pop(); part !== undefined; part = open.pop()) {
    if (typeof part !== "object" || part === null) continue;
    if (!Array.isArray(part) && Object.keys(part).length > FIELD_LIMIT) return true;
    for (const inner of Object.values(part)) if (typeof inner === "object" && inner !== null) open.push(inner);
  }
  return false;
}

/** What was read of a resource: whole as data, its texts for a model. */
export function resourceResult(result: JsonObject): unknown {
  const contents = Array.isArray(result.contents) ? result.contents.filter(isRecord) : [];
  const blocks = contents.map((resource): ContentBlock => ({ type: "resource", resource: resource as JsonObject }));
  return new WithContent(result, { blocks });
}

/** A filled-in prompt: whole as data, its messages for a model. */
export function promptResult(result: JsonObject): unknown {
  const messages = Array.isArray(result.messages) ? result.messages.filter(isRecord) : [];
  return new WithContent(result, { blocks: messages.flatMap(({ content }) => blocksOf([content])) });
}

function blocksOf(content: unknown): readonly ContentBlock[] {
  if (!Array.isArray(content)) return [];
  return content.filter((block): block is ContentBlock => isRecord(block) && typeof block.type === "string");
}

/** The text of a block that is text and nothing else. */
function plainText(block: ContentBlock): string | undefined {
  const isPlain = block.type === "text" && Object.keys(block).length === 2;
  return isPlain && typeof block.text === "string" ? block.text : undefined;
}
