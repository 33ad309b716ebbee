/** Makes a forgotten member of a union a compile error at the `default` of its switch. */
export function never(value: never): never {
  throw new TypeError(`unexpected value: ${JSON.stringify(value)}`);
}
