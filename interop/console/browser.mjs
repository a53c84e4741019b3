// Starts Chromium for the checks of pages: puppeteer-core is that of interop/report.

import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const puppeteer = createRequire(path.join(process.env.NODE_PATH, "x.js"))("puppeteer-core");

/** Chromium's arguments beside those of every check come in `more`. */
export const launch = (more = []) =>
    puppeteer.launch({
        executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
        args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", ...more],
    });

/** Ends the check: with 1 and the faults, if there are any. */
export function end(faults) {
    [...new Set(faults)].forEach((fault) => console.error(fault));
    process.exit(faults.length > 0 ? 1 : 0);
}
