/** Before names with commas between: just these are wanted. */
export const SELECT = "select:";

export function isSelection(query: string): boolean {
  return query.slice(0, SELECT.length).toLowerCase() === SELECT;
}
