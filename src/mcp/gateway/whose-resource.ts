import { matchesGlob } from "../../core/glob.ts";
import type { JsonObject } from "../../core/json.ts";
import type { Upstream } from "./gateway.ts";

type Resources = ReturnType<Upstream["resources"]>;
type Templates = ReturnType<Upstream["templates"]>;

/**
 * The server that a URI is to be read from: the one that lists it, or has a template for it, or is the only one with
 * anything of that scheme; tools hand out links to what no list holds. The first server by name, where several would do.
 */
export function whoseResource(uri: string, resources: Resources, templates: Templates): string | undefined {
  const listing = first(resources.filter(({ resource }) => resource.uri === uri));
  if (listing !== undefined) return listing;
  const fitting = first(templates.filter(({ template }) => fits(template, uri)));
  if (fitting !== undefined) return fitting;
  const scheme = schemeOf(uri);
  const known = [
    ...resources.filter(({ resource }) => schemeOf(String(resource.uri)) === scheme),
    ...templates.filter(({ template }) => schemeOf(String(template.uriTemplate)) === scheme),
  ];
  const servers = new Set(known.map(({ server }) => server));
  return scheme !== "" && servers.size === 1 ? [...servers][0] : undefined;
}

/** The server with exactly this template, for completions. */
export function whoseTemplate(uriTemplate: string, templates: Templates): string | undefined {
  return first(templates.filter(({ template }) => template.uriTemplate === uriTemplate));
}

/** Loosely: the server says what is really there. No template can make this slow, as a pattern built from it could. */
function fits({ uriTemplate }: JsonObject, uri: string): boolean {
  return typeof uriTemplate === "string" && matchesGlob(uriTemplate.replace(/\{[^{}]*\}/g, "*"), uri);
}

function schemeOf(uri: string): string {
  return /^[a-z][a-z0-9+.-]*:/i.exec(uri)?.[0].toLowerCase() ?? "";
}

function first(offered: readonly { readonly server: string }[]): string | undefined {
  return offered.map(({ server }) => server).sort()[0];
}
