/** Undefined: the bytes are not UTF-8, or contain NUL, as only binary data does. */
export function decodeText(bytes: Uint8Array): string | undefined {
  const text = decodeUtf8(bytes, false);
  return text?.includes("\0") === true ? undefined : text;
}

/** Undefined: the bytes are not UTF-8. `ignoreBOM`: a byte order mark at the start is kept as a character. */
export function decodeUtf8(bytes: Uint8Array, ignoreBOM: boolean): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM }).decode(bytes);
  } catch {
    return undefined;
  }
}
