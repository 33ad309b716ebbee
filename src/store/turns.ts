/** Lets one piece of work in at a time, in the order asked for. A failure is its asker's alone. */
export function turns(): <T>(work: () => T | Promise<T>) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work, work);
    last = turn;
    return turn;
  };
}
