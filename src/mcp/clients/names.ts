const LONGEST = 40;

/** A name as our configuration takes it: lower case, digits, single `-` and `_` between. */
export function fittedName(name: string): string {
  const fitted = name
    .slice(0, LONGEST * 4)
    .normalize("NFKD")
    .toLowerCase()
    .replace(/\p{M}/gu, "")
    .replace(/[^a-z0-9_-]+/g, "-")
    .replace(/[-_]*_[-_]*/g, "_")
    .replace(/-+/g, "-")
    .slice(0, LONGEST)
    .replace(/^[-_]+|[-_]+$/g, "");
  return fitted === "" ? "server" : fitted;
}

/** `name`, `name-2`, `name-3` …, each short enough. */
export function* namesLike(name: string): Generator<string> {
  yield name;
  for (let number = 2; number < 100; number++) {
    const suffix = `-${number}`;
    yield name.slice(0, LONGEST - suffix.length).replace(/[-_]+$/, "") + suffix;
  }
}

/** What a secret is called: the server, then what it is, unless that says the server itself. */
export function secretName(server: string, what: string): string {
  const [owner, own] = [upper(server), upper(what)];
  const [first = ""] = owner.split("_");
  const name = owner === "" || own === owner || own.startsWith(`${first}_`) ? own : [owner, own].join("_");
  const fitted = name.replace(/_+$/, "").slice(0, 100);
  return /^[A-Z]/.test(fitted) ? fitted : `_${fitted}`;
}

function upper(text: string): string {
  return text
    .slice(0, LONGEST * 4)
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toUpperCase()
    .replace(/[^A-Z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "");
}
