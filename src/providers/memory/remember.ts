import { z } from "zod";
import type { Action, CallContext } from "../../core/action.ts";
import { escapeUnsafe, toOneLine } from "../../core/display-text.ts";
import { QmError } from "../../core/errors.ts";
import type { MemoryParts } from "./memory-action.ts";
import {
  createUnknownMemoryError,
  defineMemoryAction,
  formatMemoryName,
  layerShape,
  requireHistoryAccess,
  requireMemoryAccess,
  slugShape,
  typeShape,
} from "./memory-action.ts";
import { getMemoryScope } from "./memory-entry.ts";
import { type MemoryLayer, type MemoryText, memoryLimits } from "./memory-text.ts";

const rememberInput = z.lazy(() =>
  z.strictObject({
    slug: slugShape,
    name: z.string().min(1).max(memoryLimits.name).describe("Title, on one line."),
    description: z
      .string()
      .min(1)
      .max(memoryLimits.description)
      .describe("One line that tells when the memory is useful. It is shown in lists."),
    type: typeShape,
    body: z.string().min(1).max(memoryLimits.body).describe("What to remember, as Markdown."),
  }),
);

const PARTS: Readonly<Record<MemoryLayer, { readonly who: string; readonly example: MemoryText }>> = {
  shared: {
    who: "for all actors",
    example: {
      slug: "release-day",
      name: "Release day",
      description: "When releases are made and who decides.",
      type: "project",
      body: "Releases are made on Tuesdays. Ann decides.",
    },
  },
  agent: {
    who: "for yourself alone",
    example: {
      slug: "short-answers",
      name: "Short answers",
      description: "How long answers to Ann should be.",
      type: "feedback",
      body: "Ann wants answers of at most three sentences.",
    },
  },
};

export const rememberAction = (parts: MemoryParts, layer: MemoryLayer): Action =>
  defineMemoryAction({
    entry: `remember_${layer}`,
    description: `Remember something ${PARTS[layer].who}, across sessions. Replaces the ${layer} memory with the same slug; the earlier version stays in its history.`,
    effect: "write",
    idempotent: true,
    input: rememberInput,
    examples: [{ args: { ...PARTS[layer].example } }],
    run: (args, context) => remember(parts, layer, args, context),
  });

export const forgetAction = (parts: MemoryParts): Action =>
  defineMemoryAction({
    entry: "forget",
    description: "Forget a memory. Its versions stay in its history, from which it can be restored.",
    effect: "write",
    input: z.lazy(() => z.strictObject({ layer: layerShape, slug: slugShape })),
    examples: [{ args: { layer: "shared", slug: "release-day" } }],
    async run({ layer, slug }, context) {
      const scope = getMemoryScope(context.caller, layer);
      const entry = await parts.store.get(scope, slug);
      if (entry !== undefined) await requireMemoryAccess(parts, entry, context, { reads: false });
      const isForgotten = await parts.store.forget(scope, slug, toAuthor(parts, context));
      if (!isForgotten) throw await createUnknownMemoryError(parts, { layer, slug }, context);
      return { layer, slug, forgotten: true };
    },
  });

export const restoreAction = (parts: MemoryParts): Action =>
  defineMemoryAction({
    entry: "restore",
    description: "Make an earlier version of a memory the current one, also of a forgotten memory.",
    effect: "write",
    input: z.lazy(() =>
      z.strictObject({
        layer: layerShape,
        slug: slugShape,
        version: z.int().min(1).max(1e12).describe("Number of the version, from the history."),
      }),
    ),
    examples: [{ args: { layer: "shared", slug: "release-day", version: 1 } }],
    async run({ layer, slug, version }, context) {
      const scope = getMemoryScope(context.caller, layer);
      await requireHistoryAccess(parts, { scope, slug }, context, { reads: false });
      const earlier = await parts.store.getVersion(scope, slug, version);
      if (earlier !== undefined) return remember(parts, layer, earlier, context);
      const hint = "Read its history to see the versions.";
      throw new QmError("not_found", `no ${layer} memory ${slug} has a version ${version}`, { hint });
    },
  });

async function remember(parts: MemoryParts, layer: MemoryLayer, args: MemoryText, context: CallContext) {
  const text = toDisplayable(args);
  checkText(parts, text);
  const scope = getMemoryScope(context.caller, layer);
  const current = await parts.store.get(scope, text.slug);
  for (const entry of [{ ...text, scope }, ...(current === undefined ? [] : [current])])
    await requireMemoryAccess(parts, entry, context, { reads: false });
  const { version, change } = await parts.store.put(scope, text, toAuthor(parts, context));
  return { action: formatMemoryName(layer, text.slug), layer, slug: text.slug, version, change };
}

const toAuthor = ({ now }: MemoryParts, { caller }: Pick<CallContext, "caller">) => ({
  actor: caller.actor,
  user: caller.user?.id,
  at: now(),
});

/** Other actors and their models see the text later, so it is stored as it can be shown. */
const toDisplayable = ({ slug, name, description, type, body }: MemoryText): MemoryText => ({
  slug,
  name: toOneLine(name),
  description: toOneLine(description),
  type,
  body: escapeUnsafe(body.replace(/\r\n?/g, "\n")),
});

/** Throws `invalid_arguments`. */
function checkText(parts: MemoryParts, text: MemoryText): void {
  for (const field of ["name", "description", "body"] as const) {
    const length = text[field].trim().length;
    if (length === 0) throw new QmError("invalid_arguments", `the ${field} is empty`);
    if (text[field].length > memoryLimits[field])
      throw new QmError("invalid_arguments", `the ${field} is longer than ${memoryLimits[field]} characters`);
  }
  const signs = parts.scan(`${text.name}\n${text.description}`);
  if (signs.length > 0) {
    const hint = "Describe in plain words when the memory is useful, without instructions. Details belong in the body.";
    const message = `the name or description could mislead models: ${signs.join(", ")}`;
    throw new QmError("invalid_arguments", message, { hint });
  }
  if ([text.name, text.description, text.body].some(parts.holdsSecret)) {
    const hint = "Leave the secret out, or say where it is stored.";
    throw new QmError("invalid_arguments", "the memory holds the value of a known secret", { hint });
  }
}
