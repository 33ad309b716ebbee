/** Ends with a message that has no line end. */
process.stdout.write('{"jsonrpc":"2.0","method":"notifications/bye"}');
