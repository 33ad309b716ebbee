import { QmError } from "../../core/errors.ts";

export const createInputError = (message: string, hint: string) => new QmError("invalid_arguments", message, { hint });
