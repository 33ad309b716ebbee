/**
 * The formats of JSON Schema that are checked; others say nothing. Each takes time in proportion to the text: no pattern
 * has two repetitions that can match the same characters.
 */
export const formats: ReadonlyMap<string, (text: string) => boolean> = new Map<string, (text: string) => boolean>([
  ["date", isDate],
  ["time", (text) => isTime(text, true)],
  ["iso-time", (text) => isTime(text, false)],
  ["date-time", (text) => isDate(text.slice(0, 10)) && DATED.test(text) && isTime(text.slice(11), true)],
  ["iso-date-time", (text) => isDate(text.slice(0, 10)) && DATED.test(text) && isTime(text.slice(11), false)],
  ["duration", matches(/^P(?!$)(?:\d+Y)?(?:\d+M)?(?:\d+W)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+S)?)?$/)],
  ["uri", matches(/^[a-z][a-z0-9+\-.]*:[^\s"<>\\^`{|}]*$/i)],
  ["uri-reference", matches(/^[^\s"<>\\^`{|}]*$/)],
  ["uri-template", matches(/^(?:[^\s"'<>\\^`{|}]|\{[^\s"'<>\\^`{|}]+\})*$/)],
  ["url", (text) => URL.canParse(text)],
  ["email", isEmail],
  ["hostname", isHostname],
  ["ipv4", matches(/^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$/)],
  ["ipv6", isIpv6],
  ["regex", isRegex],
  ["uuid", matches(/^(?:urn:uuid:)?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$/i)],
  ["json-pointer", matches(/^(?:\/(?:[^~/]|~[01])*)*$/)],
  ["json-pointer-uri-fragment", matches(/^#(?:\/(?:[a-z0-9_\-.!$&'()*+,;:=@]|%[0-9a-f]{2}|~[01])*)*$/i)],
  ["relative-json-pointer", matches(/^(?:0|[1-9]\d*)(?:#|(?:\/(?:[^~/]|~[01])*)*)$/)],
  ["byte", matches(/^(?:[a-z0-9+/]{4})*(?:[a-z0-9+/]{2}==|[a-z0-9+/]{3}=)?$/i)],
]);

/** A longer pattern is not compiled to find out whether it is one. */
const REGEX_LIMIT = 10_000;

function matches(pattern: RegExp): (text: string) => boolean {
  return (text) => pattern.test(text);
}

const DATED = /^.{10}[Tt ]/;
const TIME = /^([01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?$/i;

function isDate(text: string): boolean {
  if (!/^\d{4}-\d\d-\d\d$/.test(text)) return false;
  const date = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(date.getTime()) && date.toISOString().startsWith(text);
}

function isTime(text: string, needsZone: boolean): boolean {
  const match = TIME.exec(text);
  return match !== null && (!needsZone || match[2] !== undefined);
}

function isEmail(text: string): boolean {
  const at = text.lastIndexOf("@");
  return at > 0 && /^[\w.!#$%&'*+/=?^`{|}~-]+$/.test(text.slice(0, at)) && isHostname(text.slice(at + 1));
}

function isHostname(text: string): boolean {
  const labels = text.length > 253 ? [] : text.replace(/\.$/, "").split(".");
  return labels.length > 0 && labels.every((label) => /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i.test(label));
}

function isIpv6(text: string): boolean {
  return text.length <= 45 && /^[0-9a-f:.]+$/i.test(text) && URL.canParse(`http://[${text}]`);
}

function isRegex(text: string): boolean {
  if (text.length > REGEX_LIMIT) return false;
  try {
    new RegExp(text, "u");
    return true;
  } catch {
    return false;
  }
}
