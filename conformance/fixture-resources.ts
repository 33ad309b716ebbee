import { type ReadResourceResult, ResourceNotFoundError } from "@modelcontextprotocol/server";
import { PIXEL } from "./fixture-media.ts";

export const fixtureResources = [
  { uri: "test://static-text", name: "text", description: "Always the same text.", mimeType: "text/plain" },
  { uri: "test://static-binary", name: "picture", description: "Always the same picture.", mimeType: "image/png" },
  { uri: "test://watched-resource", name: "watched", description: "Changes now and then.", mimeType: "text/plain" },
] as const;

export const fixtureTemplates = [
  {
    uriTemplate: "test://template/{id}/data",
    name: "data",
    description: "The data of an id.",
    mimeType: "application/json",
  },
] as const;

export function readFixture(uri: string): ReadResourceResult {
  const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
  if (id !== undefined) {
    return { contents: [{ uri, mimeType: "application/json", text: JSON.stringify({ id, fromTemplate: true }) }] };
  }
  const listed = fixtureResources.find((resource) => resource.uri === uri);
  if (listed === undefined) throw new ResourceNotFoundError(uri);
  const { mimeType } = listed;
  return { contents: [mimeType === "image/png" ? { uri, mimeType, blob: PIXEL } : { uri, mimeType, text: "A text." }] };
}
