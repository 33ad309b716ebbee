/** Stores small secrets, such as API keys and OAuth tokens. They are never shown or logged. */
export interface SecretStore {
  get(name: string): Promise<string | undefined>;
  set(name: string, value: string): Promise<void>;
  delete(name: string): Promise<boolean>;
  names(): Promise<readonly string[]>;
}
