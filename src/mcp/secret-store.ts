/** Small secret texts that outlive the process: keys of servers, OAuth tokens. Never shown, never logged. */
export interface SecretStore {
  get(name: string): Promise<string | undefined>;
  set(name: string, value: string): Promise<void>;
  delete(name: string): Promise<boolean>;
  names(): Promise<readonly string[]>;
}
