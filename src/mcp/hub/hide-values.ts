/** Shorter ones are words that stand in every other line, and no secrets. */
const SHORTEST = 8;

/**
 * A function that puts the name of a variable where its value stands: servers print what they were started with. The
 * values are those that were given to this server; they may be secrets, and nobody says which.
 */
export function hidingValues(variables: Readonly<Record<string, string>>): (text: string) => string {
  const hidden = Object.entries(variables)
    // What has several lines, as keys have, is printed on several lines.
    .flatMap(([name, value]) => value.split(/\r?\n/).map((part) => ({ name, part: part.trim() })))
    .filter(({ part }) => part.length >= SHORTEST)
    .sort((a, b) => b.part.length - a.part.length);
  return (text) => hidden.reduce((shown, { name, part }) => shown.replaceAll(part, () => `[${name}]`), text);
}
