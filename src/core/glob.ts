/**
 * Whether `text` fits `pattern`, where `*` stands for any run of characters and `?` for one. There is no separator:
 * names hold dots, slashes and `__`, and `github.*` must mean everything below it. Linear but for one step back.
 */
export function matchesGlob(pattern: string, text: string): boolean {
  let p = 0;
  let t = 0;
  let star = -1;
  let resume = 0;
  while (t < text.length) {
    if (p < pattern.length && pattern[p] === "*") {
      star = p++;
      resume = t;
    } else if (p < pattern.length && (pattern[p] === "?" || pattern[p] === text[t])) {
      p++;
      t++;
    } else if (star >= 0) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (pattern[p] === "*") p++;
  return p === pattern.length;
}

export function isGlob(pattern: string): boolean {
  return /[*?]/.test(pattern);
}
