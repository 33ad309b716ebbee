import { hash } from "node:crypto";
import { plain } from "../core/plain-text.ts";

/** Text that is HTML already. Nothing else gets into a page unescaped. */
export interface Html {
  readonly html: string;
}

type Part = string | Html | readonly Html[];

/** HTML with everything that is filled in written so that it can only be text. */
export function html(parts: TemplateStringsArray, ...values: readonly Part[]): Html {
  return { html: String.raw({ raw: parts }, ...values.map(written)) };
}

function written(part: Part): string {
  if (typeof part === "string") return escaped(plain(part));
  return "html" in part ? part.html : part.map((each) => each.html).join("");
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

const STYLE = `
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.3rem; overflow-wrap: anywhere; }
dt { font-weight: 600; margin-top: .8rem; }
dd { margin: 0; overflow-wrap: anywhere; white-space: pre-wrap; }
pre { margin: 0; padding: .7rem; border: 1px solid; border-radius: 4px; overflow-wrap: anywhere; white-space: pre-wrap; }
textarea { display: block; font: inherit; width: 100%; box-sizing: border-box; padding: .4rem; margin: .3rem 0; }
button { font: inherit; padding: .5rem 1.5rem; margin-right: 1rem; }
`;

const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": `default-src 'none'; style-src 'sha256-${hash("sha256", STYLE, "base64")}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'`,
  // Not no-referrer: with that a browser sends the page's own form from nowhere, which is refused.
  "referrer-policy": "same-origin",
  "cache-control": "no-store",
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
};

/** A page that loads nothing, runs nothing and is kept nowhere. */
export function page(status: number, title: string, content: Html, headers: Readonly<Record<string, string>> = {}) {
  const text = html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title}</title>
<style>${{ html: STYLE }}</style>
</head>
<body>
<h1>${title}</h1>
${content}
</body>
</html>
`;
  return new Response(text.html, { status, headers: { ...HEADERS, ...headers } });
}
