import type { Command } from "commander";
import { type Context, withWorkspace } from "../../context.ts";
import { showProgress } from "../../progress.ts";
import { requireServer } from "./require-server.ts";

export function addLogin(servers: Command, context: Context): void {
  servers
    .command("login")
    .summary("log in to a remote server")
    .description(
      "Log in to a remote server in the browser. The tokens are kept beside the store, readable by you alone.",
    )
    .argument("<name>")
    .action((name: string) =>
      withWorkspace(context, "calls", async ({ servers }) => {
        const { io, out } = context;
        requireServer(servers, name);
        let wipe = (): void => {};
        const show = (url: URL): void => {
          out.note(`Open this in a browser and agree there:\n\n  ${url}\n`);
          wipe = showProgress(io.stderr, "waiting for the browser");
        };
        await servers.hub.login(name, show, io.signal).finally(() => wipe());
        if (out.isJson) return out.json({ server: name, loggedIn: true });
        out.line(`Logged in to ${name}.`);
      }),
    );

  servers
    .command("logout")
    .summary("forget the tokens of a remote server")
    .argument("<name>")
    .action((name: string) =>
      withWorkspace(context, "calls", async ({ servers }) => {
        requireServer(servers, name);
        await servers.hub.logout(name);
        if (context.out.isJson) context.out.json({ server: name, loggedIn: false });
        else context.out.line(`The tokens of ${name} are forgotten.`);
      }),
    );
}
