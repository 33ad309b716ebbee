import type { JsonSchema } from "../../core/action.ts";
import { QmError } from "../../core/errors.ts";
import { isRecord, type JsonObject } from "../../core/json.ts";

export type ParameterPlace = "path" | "query" | "header" | "cookie";
export type ParameterStyle =
  | "simple"
  | "label"
  | "matrix"
  | "form"
  | "spaceDelimited"
  | "pipeDelimited"
  | "deepObject"
  /** The value as JSON text, for a parameter with `content`. */
  | "json";

/** Media types whose bodies are sent as they are given. Other types are bytes. */
export const isTextType = (mediaType: string): boolean => /^text\/|xml|yaml|sdp|graphql|javascript|csv/.test(mediaType);

export interface ApiParameter {
  /** The argument of the action. It differs from `name` where that is not a valid name or taken. */
  readonly argument: string;
  readonly name: string;
  readonly in: ParameterPlace;
  readonly style: ParameterStyle;
  readonly explode: boolean;
  readonly allowReserved?: boolean;
}

export interface PartEncoding {
  readonly contentType?: string;
  readonly style?: ParameterStyle;
  readonly explode?: boolean;
  readonly allowReserved?: boolean;
}

export interface ApiBody {
  readonly mediaType: string;
  readonly required: boolean;
  /** Arguments that are fields of the body, and their names there. Absent: the argument `body` is the whole body. */
  readonly fields?: Readonly<Record<string, string>>;
  /** The argument with the whole body, if `body` is a parameter. */
  readonly argument?: string;
  /** Whether arguments that no parameter has are fields too. */
  readonly takesOthers?: boolean;
  readonly encoding?: Readonly<Record<string, PartEncoding>>;
  /** The fields of a form that are files. Absent: a file is known by its keys. */
  readonly files?: readonly string[];
}

/** How a credential is sent. */
export type SecurityScheme =
  | { readonly kind: "key"; readonly in: "header" | "query" | "cookie"; readonly name: string }
  | { readonly kind: "basic" }
  /** A token after `Bearer`, or after another word. */
  | { readonly kind: "bearer"; readonly prefix?: string };

export interface ApiOperation {
  /** Unique in the API: the end of the action's name. */
  readonly entry: string;
  readonly method: string;
  readonly path: string;
  /** Absent: the server of the API. */
  readonly server?: string;
  readonly description: string;
  readonly tags: readonly string[];
  readonly parameters: readonly ApiParameter[];
  readonly body?: ApiBody;
  /** One of these sets of schemes is needed. Empty: none. */
  readonly security: readonly (readonly string[])[];
  readonly accept?: string;
  /** Whether the document lists a redirect among the responses. It is then a result. */
  readonly redirects?: boolean;
  readonly schema: JsonSchema;
  readonly example?: JsonObject;
}

/** An OpenAPI document, reduced to what calls need. */
export interface CompiledApi {
  readonly format: 1;
  readonly title: string;
  readonly version: string;
  /** The SHA-256 of the document. */
  readonly document: string;
  /** The address that the document names. Calls use the one in the configuration. */
  readonly server?: string;
  readonly schemes: Readonly<Record<string, SecurityScheme>>;
  readonly operations: readonly ApiOperation[];
}

/** Reads a compiled file whose digest was checked. Throws `invalid_config`. */
export function parseCompiledApi(text: string): CompiledApi {
  try {
    const parsed: unknown = JSON.parse(text);
    if (isRecord(parsed) && parsed.format === 1 && Array.isArray(parsed.operations) && isRecord(parsed.schemes))
      return parsed as unknown as CompiledApi;
  } catch {
    // Reported below.
  }
  throw new QmError("invalid_config", "the compiled file has another format", { hint: "Import the document again." });
}
