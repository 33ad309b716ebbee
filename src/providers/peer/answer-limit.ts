const [QUOTE, BACKSLASH, NEWLINE, RETURN] = Array.from('"\\\n\r', (each) => each.charCodeAt(0));
const COUNTED: ReadonlySet<number> = new Set(Array.from(",[{", (each) => each.charCodeAt(0)));

/**
 * Passes on the bytes of an answer, and fails beyond a number of bytes, or of values in one JSON text. They are counted
 * before anything is parsed: many small values take far longer than their bytes tell. Of a stream, each event is one text.
 */
export function createAnswerLimit(
  limits: { readonly bytes: number; readonly values: number; readonly isStream: boolean },
  createError: (what: string) => Error,
): TransformStream<Uint8Array, Uint8Array> {
  let size = 0;
  let values = 0;
  let isInText = false;
  let isEscaped = false;
  let last = NEWLINE;
  let isLineEmpty = true;

  function count(byte: number): void {
    if (byte === NEWLINE || byte === RETURN) {
      // No text in JSON goes beyond its line. An empty line ends an event.
      isInText = false;
      isEscaped = false;
      if (byte === NEWLINE && last === RETURN) return;
      if (isLineEmpty && limits.isStream) values = 0;
      isLineEmpty = true;
      return;
    }
    isLineEmpty = false;
    if (isEscaped) isEscaped = false;
    else if (byte === QUOTE) isInText = !isInText;
    else if (isInText) isEscaped = byte === BACKSLASH;
    else if (COUNTED.has(byte)) values++;
  }

  return new TransformStream({
    transform(chunk, controller) {
      size += chunk.length;
      for (const byte of chunk) {
        count(byte);
        last = byte;
        if (values > limits.values) break;
      }
      if (size > limits.bytes) controller.error(createError(`${limits.bytes} bytes`));
      else if (values > limits.values) controller.error(createError(`${limits.values} values`));
      else controller.enqueue(chunk);
    },
  });
}
