/** Runs the command from its source. The published command begins in `launcher.ts`. */
import { runProcess } from "./process.ts";

void runProcess((url) => import(url));
