/** Checks of texts that some callers store and the models of others read. */
export interface TextChecks {
  /** The serious signs that a text misleads models. */
  scan(text: string): readonly string[];
  /** Whether a text holds a secret that the configuration knows. */
  holdsSecret(text: string): boolean;
}
