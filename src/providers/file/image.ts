/** The facts in the first bytes of an image. */
export interface ImageFacts {
  readonly mediaType: string;
  readonly width?: number;
  readonly height?: number;
}

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** Recognizes PNG, JPEG, GIF and WebP by their first bytes, because names can be wrong. Undefined: another file. */
export function readImageFacts(bytes: Buffer): ImageFacts | undefined {
  const readText = (from: number, to: number) => bytes.toString("latin1", from, to);
  if (bytes.subarray(0, PNG.length).equals(PNG)) {
    const size = bytes.length >= 24 ? { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) } : {};
    return { mediaType: "image/png", ...size };
  }
  if (/^GIF8[79]a/.test(readText(0, 6))) {
    const size = bytes.length >= 10 ? { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) } : {};
    return { mediaType: "image/gif", ...size };
  }
  if (readText(0, 4) === "RIFF" && readText(8, 12) === "WEBP")
    return { mediaType: "image/webp", ...readWebpSize(bytes) };
  if (bytes.length >= 3 && bytes.readUIntBE(0, 3) === 0xffd8ff) {
    return { mediaType: "image/jpeg", ...readJpegSize(bytes) };
  }
  return undefined;
}

type ImageSize = Pick<ImageFacts, "width" | "height">;

function readWebpSize(bytes: Buffer): ImageSize {
  if (bytes.length < 30) return {};
  const chunk = bytes.toString("latin1", 12, 16);
  if (chunk === "VP8X") return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
  if (chunk === "VP8 ") return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
  if (chunk !== "VP8L") return {};
  const bits = bytes.readUInt32LE(21);
  return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
}

/** The size is in the first frame header, after any number of other segments. */
function readJpegSize(bytes: Buffer): ImageSize {
  for (let at = 2; at + 9 <= bytes.length && bytes[at] === 0xff; ) {
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) {
      at++;
      continue;
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker);
    if (isFrame) return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) };
    at += 2 + bytes.readUInt16BE(at + 2);
  }
  return {};
}
