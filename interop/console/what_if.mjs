// what_if.mjs CONSOLE TRACE REQUESTS CELLS: reads the what-if panel of the console, and compares each of its hit ratios with a replay of
// TRACE, the REQUESTS that the node has served. Appends to the file CELLS how many are within their errors, and how many there are. Ends
// with 1 and the faults, if there are any.

import { execFileSync } from "node:child_process";
import { appendFileSync } from "node:fs";
import process from "node:process";
import { end, launch } from "../report/pages.mjs";

const [console_, trace, requests, cells] = process.argv.slice(2);
const faults = [];

/** Ratios and errors are shown with one decimal. */
const ROUNDING = 0.1;
/** No cell is off by more than this many of its errors, beyond a point. */
const FAR = 2.5;

/** Returns [{policy, size, ratio, error}] as the panel shows them, and the number of requests that it names. */
function readPanel() {
    const panel = document.querySelector("#what-if-body");
    const sizes = [...document.querySelectorAll("#apply-capacity option")].map((option) => Number(option.value));
    const rows = [...panel.querySelectorAll("tbody tr")].map((row) => [...row.cells].map((cell) => cell.textContent));
    const cells = rows.flatMap(([name, ...values]) =>
        values.map((value, at) => {
            const [, ratio, error] = value.match(/^([\d.]+) % ±([\d.]+)$/);
            return { policy: name.replace(" (runs now)", ""), size: sizes[at], ratio: Number(ratio), error: Number(error) };
        }),
    );
    return { cells, requests: Number(panel.querySelector("p").textContent.match(/[\d,]+ requests/)[0].replace(/\D/g, "")) };
}

const browser = await launch();
try {
    const page = await browser.newPage();
    await page.goto(console_);
    const hasAll = (wanted) => document.querySelector("#what-if-body p")?.textContent.replaceAll(",", "").includes(` ${wanted} requests`);
    await page.waitForFunction(hasAll, { timeout: 20000 }, requests).catch(() => faults.push(`the panel does not count ${requests} requests`));
    const panel = await page.evaluate(readPanel);
    const policies = [...new Set(panel.cells.map((cell) => cell.policy))];
    const sizes = [...new Set(panel.cells.map((cell) => cell.size))];
    const replay = execFileSync(process.env.LARDER, ["replay", trace, "--json", "--policy", policies.join(","), "--size", sizes.join(",")], { encoding: "utf8" });
    const rows = replay.trim().split("\n").map((line) => JSON.parse(line));
    if (policies.length < 6 || sizes.length !== 8) faults.push(`policies ${policies}, sizes ${sizes}`);
    if (rows.some((row) => row.requests !== Number(requests))) faults.push(`the capture has ${rows[0].requests} requests, ${requests} were sent`);
    let covered = 0;
    for (const { policy, size, ratio, error } of panel.cells) {
        const true_ = 100 * rows.find((row) => row.policy === policy && row.capacity === size).object_hit_ratio;
        const off = Math.abs(ratio - true_);
        const cell = `${policy} with ${size} bytes: ${ratio} % ±${error} in the panel, ${true_.toFixed(2)} % in the replay`;
        if (off <= error + ROUNDING) covered += 1;
        else console.error(cell);
        if (off > FAR * error + 1) faults.push(`too far: ${cell}`);
    }
    console.log(`${covered} of ${panel.cells.length} within their errors`);
    appendFileSync(cells, `${covered} ${panel.cells.length}\n`);
} finally {
    await browser.close();
}
end(faults);
