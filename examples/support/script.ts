/** The script of the example models: one call, then one sentence. */
export const script = {
  callId: "call-1",
  tool: "invoke_action",
  args: { action_name: "tool__weather", args: { city: "Lisbon" } },
  question: "How warm is it in Lisbon?",
  answer: "It is warm.",
};

/** A `fetch` that answers the nth request with the nth response. */
export function scriptedFetch(responses: readonly unknown[]): typeof fetch {
  const left = [...responses];
  return async () => Response.json(left.shift());
}
