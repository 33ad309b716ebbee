/**
 * The program of the thread that converts a page or evaluates a robots.txt. It is text, because the command is one bundle and has no file for a
 * thread. The packages are found by the paths in `workerData`.
 */
export const PAGE_WORKER = String.raw`
const { parentPort, workerData } = require("node:worker_threads");
const { kind, page, url, packages, maxElements, maxDepth, maxBufferBytes } = workerData;

function parsePage() {
  const { parseHTML } = require(packages.linkedom);
  // linkedom does not add the head and the body that a page may leave out, so all pages get them here.
  const inner = page.replace(/<!doctype[^>]{0,2000}>|<\/?(?:html|head|body)(?=[\s>])[^>]{0,2000}>/gi, "");
  const { document } = parseHTML("<!doctype html><html><head></head><body>" + inner + "</body></html>");
  const base = resolveUrl(document.querySelector("base[href]")?.getAttribute("href") ?? "", url) ?? url;
  for (const each of document.querySelectorAll("script,style,noscript,template,iframe,object,svg")) each.remove();
  for (const [selector, name] of [["a[href]", "href"], ["img[src]", "src"]]) {
    for (const each of document.querySelectorAll(selector)) {
      const target = resolveUrl(each.getAttribute(name), base);
      if (target === undefined) each.removeAttribute(name);
      else each.setAttribute(name, target);
    }
  }
  return document;
}

function resolveUrl(text, base) {
  if (!URL.canParse(text, base)) return undefined;
  const target = new URL(text, base);
  return ["http:", "https:", "mailto:"].includes(target.protocol) ? target.href : undefined;
}

function toMarkdown(html) {
  const TurndownService = require(packages.turndown);
  const { gfm } = require(packages.gfm);
  const service = new TurndownService({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-" });
  service.use(gfm);
  return service.turndown(html).trim();
}

function convertHtml() {
  const document = parsePage();
  const heading = document.querySelector("title");
  const title = heading?.textContent.replace(/\s+/g, " ").trim();
  heading?.remove();
  const whole = document.body?.innerHTML ?? "";
  const { Readability } = require(packages.readability);
  const article = new Readability(document, { maxElemsToParse: maxElements, keepClasses: true }).parse();
  const content = toMarkdown(article?.content || whole);
  return { title: title || article?.title || undefined, content };
}

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: " " };

/** Only the text: for a page that nests too deeply or has too many elements. Never goes back in the text. */
function stripTags() {
  const title = /<title[^<>]{0,1000}>([^<]{0,1000})/i.exec(page)?.[1]?.trim();
  const parts = [];
  let at = 0;
  let skipped = "";
  while (at < page.length) {
    const open = page.indexOf("<", at);
    if (skipped === "") parts.push(page.slice(at, open === -1 ? page.length : open));
    if (open === -1) break;
    const close = page.indexOf(">", open);
    if (close === -1) break;
    const name = /^<\/?([a-z0-9]+)/i.exec(page.slice(open, open + 20))?.[1]?.toLowerCase() ?? "";
    const isEnd = page[open + 1] === "/";
    if (skipped === "" && !isEnd && ["script", "style", "title"].includes(name)) skipped = name;
    else if (isEnd && name === skipped) skipped = "";
    if (/^(?:p|div|br|li|tr|h[1-6]|section|article|ul|ol|table|pre)$/.test(name)) parts.push("\n");
    at = close + 1;
  }
  const text = parts.join("").replace(/&(amp|lt|gt|quot|nbsp);/g, (_, name) => ENTITIES[name]);
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  return { title, content: lines.join("\n"), simplified: true };
}

function measureDepth() {
  let depth = 0;
  let deepest = 0;
  for (const [, end, name] of page.matchAll(/<(\/?)([a-z][a-z0-9-]{0,30})/gi)) {
    if (/^(?:p|li|td|tr|th|dt|dd|option|br|hr|img|input|meta|link|source|wbr|area|base|col|embed|track)$/i.test(name)) continue;
    depth = end === "/" ? Math.max(0, depth - 1) : depth + 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

/** Counts the bytes of all buffers that are created from here on. When there are too many, the thread is ended. */
function limitBuffers() {
  // It has buffers of its own. Without it, unpdf decompresses into the ones that are counted.
  delete globalThis.DecompressionStream;
  let left = maxBufferBytes;
  globalThis.Uint8Array = new Proxy(Uint8Array, {
    construct(target, args, made) {
      if (typeof args[0] === "number") left -= args[0];
      if (left < 0) {
        parentPort.postMessage("exhausted");
        throw new RangeError("too many bytes");
      }
      return Reflect.construct(target, args, made);
    },
  });
}

async function convertPdf() {
  limitBuffers();
  const { extractText, getDocumentProxy, getMeta } = await import(packages.unpdf);
  const pdf = await getDocumentProxy(page, { isEvalSupported: false, verbosity: 0 });
  const { text } = await extractText(pdf, { mergePages: false });
  const { info } = await getMeta(pdf).catch(() => ({ info: {} }));
  const content = text.map((each, index) => "## Page " + (index + 1) + "\n\n" + each.trim()).join("\n\n");
  return { title: info?.Title || undefined, content, pages: text.length };
}

async function convert() {
  if (kind === "robots") {
    const { robots, userAgent } = workerData;
    const rules = require(packages.robots)(new URL("/robots.txt", url).href, robots);
    return { isAllowed: rules.isAllowed(url, userAgent) !== false };
  }
  if (kind === "pdf") return convertPdf();
  // The parsers take quadratic time for deep pages, and overflow the stack in the end.
  if (measureDepth() > maxDepth) return stripTags();
  try {
    return convertHtml();
  } catch {
    return stripTags();
  }
}

convert().then(
  (answer) => parentPort.postMessage(answer),
  () => parentPort.postMessage("broken"),
);
`;
