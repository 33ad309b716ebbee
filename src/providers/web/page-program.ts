/**
 * The program of the process that converts a page or evaluates a robots.txt. It is text, because the command is one bundle
 * and has no file for it. Each page is sent with the paths of the packages.
 */
export const PAGE_PROGRAM = String.raw`
const own = require("node:process");

own.once("message", async (job) => {
  limitWork(job.cpuSeconds);
  const answer = await evaluate(job).catch(() => "broken");
  own.send(answer, () => own.exit());
});

/** Ends the process after this much processor time. The work may block timers, so a thread measures it. */
function limitWork(cpuSeconds) {
  const { Worker } = require("node:worker_threads");
  const program =
    "const { workerData } = require('node:worker_threads');" +
    "const { kill, pid, cpuUsage } = require('node:process');" +
    "const check = ({ user, system }) => { if (user + system > workerData) kill(pid, 'SIGKILL'); };" +
    "setInterval(() => check(cpuUsage()), 100);";
  new Worker(program, { eval: true, workerData: cpuSeconds * 1e6 }).unref();
}

async function evaluate(job) {
  if (job.kind === "robots") return evaluateRobots(job);
  const { title, content, ...rest } = job.kind === "pdf" ? await convertPdf(job) : convertHtml(job);
  const isCut = content.length > job.maxLength;
  const line = title?.replace(/\s+/g, " ").trim().slice(0, 300);
  const shown = isCut ? content.slice(0, job.maxLength) : content;
  return { title: line || undefined, content: shown, ...(isCut ? { truncated: true } : {}), ...rest };
}

function evaluateRobots({ packages, url, robots, userAgent }) {
  const rules = require(packages.robots)(new URL("/robots.txt", url).href, robots);
  return { isAllowed: rules.isAllowed(url, userAgent) !== false };
}

function convertHtml(job) {
  const html = cutHidden(job.page);
  // The parsers take quadratic time for deep pages, and overflow the stack in the end.
  if (!isTooComplex(html, job)) {
    try {
      return toArticle(parsePage(html, job), job);
    } catch {}
  }
  return stripTags(html);
}

/** Cuts elements that browsers do not show, which would cost the parser memory. Each search begins where the last ended. */
function cutHidden(html) {
  const open = /<(?:(script|style|svg|noscript|template)(?=[\s>/])|!--)/gi;
  const endless = new Set();
  const parts = [];
  let at = 0;
  for (let found = open.exec(html); found !== null; found = open.exec(html)) {
    const name = found[1]?.toLowerCase() ?? "!--";
    if (endless.has(name)) continue;
    const end = name === "!--" ? /-->/g : new RegExp("</" + name + "[^<>]{0,100}>", "gi");
    end.lastIndex = open.lastIndex;
    if (!end.test(html)) endless.add(name);
    else {
      parts.push(html.slice(at, found.index));
      at = open.lastIndex = end.lastIndex;
    }
  }
  return parts.join("") + html.slice(at);
}

/** Asks the parser of linkedom, which decides itself which elements end without a closing tag. */
function isTooComplex(html, { packages, maxElements, maxDepth }) {
  const { Parser } = require(packages.htmlparser);
  let elements = 0;
  let depth = 0;
  const onopentagname = () => {
    if (++elements > maxElements || ++depth > maxDepth) throw new RangeError("too many elements");
  };
  try {
    new Parser({ onopentagname, onclosetag: () => depth-- }).end(html);
    return false;
  } catch {
    return true;
  }
}

function parsePage(html, { url, packages }) {
  const { parseHTML } = require(packages.linkedom);
  // linkedom does not add the head and the body that a page may leave out, so all pages get them here.
  const inner = html.replace(/<!doctype[^>]{0,2000}>|<\/?(?:html|head|body)(?=[\s>])[^>]{0,2000}>/gi, "");
  const { document } = parseHTML("<!doctype html><html><head></head><body>" + inner + "</body></html>");
  for (const each of document.querySelectorAll("script,style,svg,noscript,template,iframe,object")) each.remove();
  unlinkHeadings(document);
  resolveAddresses(document, url);
  simplifyCode(document);
  simplifyTables(document);
  return document;
}

/** The links of headings and definitions to themselves. */
function unlinkHeadings(document) {
  for (const link of document.querySelectorAll(":is(h1,h2,h3,h4,h5,h6,dt) a[href^='#']")) {
    if (link.textContent.trim().length < 3) link.remove();
    else link.replaceWith(...link.childNodes);
  }
}

function resolveAddresses(document, url) {
  const base = resolveUrl(document.querySelector("base[href]")?.getAttribute("href") ?? null, url) ?? url;
  for (const [selector, target, names] of [["a[href]", "href", ["href"]], ["img", "src", ["src", "data-src"]]]) {
    for (const each of document.querySelectorAll(selector)) {
      const addresses = names.map((name) => resolveUrl(each.getAttribute(name), base));
      for (const name of [...names, "srcset"]) each.removeAttribute(name);
      const address = addresses.find((found) => found !== undefined);
      if (address !== undefined) each.setAttribute(target, address);
    }
  }
}

function resolveUrl(text, base) {
  if (text === null || !URL.canParse(text, base)) return undefined;
  const target = new URL(text, base);
  return ["http:", "https:", "mailto:"].includes(target.protocol) ? target.href : undefined;
}

/** Makes all code blocks alike: one element with the language as its class and only text in it. */
function simplifyCode(document) {
  for (const each of document.querySelectorAll(".linenos")) each.remove();
  for (const block of document.querySelectorAll("pre")) {
    for (const end of block.querySelectorAll("br")) end.replaceWith("\n");
    // Some sites have an element for each line.
    for (const line of [...block.querySelectorAll("div,li")].reverse())
      if (!line.textContent.endsWith("\n")) line.append("\n");
    const code = document.createElement("code");
    const language = findLanguage(block);
    if (language !== undefined) code.className = "language-" + language;
    code.textContent = block.textContent;
    block.replaceChildren(code);
  }
}

function findLanguage(block) {
  const around = [block.querySelector("code"), block, block.parentElement, block.parentElement?.parentElement];
  const classes = around.map((each) => each?.getAttribute("class") ?? "").join(" ");
  const named = /(?:^|\s)(?:language|lang|highlight(?:-source|-text)?)-([\w+#.-]{1,30})/.exec(classes)?.[1];
  return ["default", "none"].includes(named) ? undefined : (named ?? block.getAttribute("lang") ?? undefined);
}

/** Tables in Markdown hold only lines. Tables that are a layout become the content of their cells. */
function simplifyTables(document) {
  for (const table of document.querySelectorAll("table")) {
    const rows = [...table.querySelectorAll("tr")].filter((row) => row.closest("table") === table);
    const isLayout =
      /^(?:presentation|none)$/.test(table.getAttribute("role") ?? "") ||
      rows.every((row) => row.children.length < 2) ||
      rows.length < 2 ||
      table.parentElement.closest("table") !== null ||
      (table.querySelector("table") !== null && rows.every((row) => row.querySelector("th") === null));
    if (isLayout) {
      const block = document.createElement("div");
      for (const cell of rows.flatMap((row) => [...row.children])) {
        const part = document.createElement("div");
        part.append(...cell.childNodes);
        block.append(part);
      }
      table.replaceWith(block);
    } else {
      const caption = table.querySelector("caption");
      if (caption === null) continue;
      const text = document.createElement("p");
      text.append(...caption.childNodes);
      caption.remove();
      table.before(text);
    }
  }
}

function toArticle(document, { packages }) {
  const heading = document.querySelector("title");
  const title = heading?.textContent.trim();
  heading?.remove();
  const whole = document.body?.innerHTML ?? "";
  const { Readability } = require(packages.readability);
  const article = new Readability(document, { keepClasses: true }).parse();
  return { title: title || article?.title, content: toMarkdown(article?.content || whole, packages) };
}

const toLine = (content) => content.replace(/\s+/g, " ").trim();

function toMarkdown(html, packages) {
  const TurndownService = require(packages.turndown);
  const service = new TurndownService({ headingStyle: "atx", codeBlockStyle: "fenced", bulletListMarker: "-", hr: "---" });
  const rules = {
    link: [
      (node) => node.nodeName === "A",
      (content, node) => {
        const [text, href] = [toLine(content), node.getAttribute("href")];
        return text === "" || !href ? content : "[" + text + "](" + href + ")";
      },
    ],
    term: ["dt", (content) => "\n\n**" + toLine(content) + "**\n\n"],
    removed: [["del", "s"], (content) => "~~" + content + "~~"],
    // Without the tag, a power would be read as a digit.
    script: [["sup", "sub"], (content, { localName }) => "<" + localName + ">" + content + "</" + localName + ">"],
    cell: [["td", "th"], (content) => "| " + toLine(content).replaceAll("|", "\\|") + " "],
    row: [
      "tr",
      (content, node) => {
        const table = node.parentNode.nodeName === "TABLE" ? node.parentNode : node.parentNode.parentNode;
        const isFirst = table.querySelector("tr") === node;
        return "\n" + content + "|" + (isFirst ? "\n" + "| --- ".repeat(node.children.length) + "|" : "");
      },
    ],
    rows: [["thead", "tbody", "tfoot"], (content) => content],
    table: ["table", (content) => "\n\n" + content.trim() + "\n\n"],
  };
  for (const [name, [filter, replacement]] of Object.entries(rules)) service.addRule(name, { filter, replacement });
  return service.turndown(html).replace(/\n[ \t]+(?=\n)/g, "\n").trim();
}

const ENTITIES = { amp: "&", lt: "<", gt: ">", quot: '"', nbsp: " " };

/** Only the text. */
function stripTags(html) {
  const title = /<title[^<>]{0,1000}>([^<]{0,1000})/i.exec(html)?.[1];
  const content = html
    .replace(/<title[^<>]{0,1000}>[^<]{0,1000}/i, "")
    .replace(/<\/?(?:p|div|br|li|tr|h[1-6]|section|article|ul|ol|table|pre)(?=[\s>/])[^<>]*>/gi, "\n")
    .replace(/<[^<>]*>/g, "")
    .replace(/&(amp|lt|gt|quot|nbsp);/g, (_, name) => ENTITIES[name]);
  const lines = content.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  return { title, content: lines.join("\n"), simplified: true };
}

/** Counts the bytes of all buffers that are created from here on, which are not part of the heap. */
function limitBuffers(maxBytes) {
  // A DecompressionStream has buffers of its own. Without it, unpdf decompresses into the ones that are counted.
  delete globalThis.DecompressionStream;
  let left = maxBytes;
  globalThis.Uint8Array = new Proxy(Uint8Array, {
    construct(target, args, made) {
      if (typeof args[0] === "number") left -= args[0];
      if (left < 0) own.exit();
      return Reflect.construct(target, args, made);
    },
  });
}

async function convertPdf({ packages, page, maxBufferBytes }) {
  // The library does not take a Buffer.
  const bytes = new Uint8Array(page);
  limitBuffers(maxBufferBytes);
  const { extractText, getDocumentProxy, getMeta } = require(packages.unpdf);
  const pdf = await getDocumentProxy(bytes, { isEvalSupported: false, verbosity: 0 });
  const { text } = await extractText(pdf, { mergePages: false });
  const { info } = await getMeta(pdf).catch(() => ({ info: {} }));
  const isBlank = text.every((each) => each.trim() === "");
  const content = isBlank ? "" : text.map((each, index) => "## Page " + (index + 1) + "\n\n" + each.trim()).join("\n\n");
  return { title: info?.Title || undefined, content, pages: text.length };
}
`;
