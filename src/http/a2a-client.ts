/** Another agent that may call, and the actor that its calls are decided for. */
export type A2aClient = { readonly name: string; readonly actor: string };
