// advise.mjs PAGE.html DIRECTORY: opens a page of `larder advise` in Chromium, light and dark, on a desktop and on a phone, and on paper.
// Writes a picture of each into DIRECTORY, and ends with 1 and the faults, if there are any.

import process from "node:process";
import { browse, end } from "./pages.mjs";

/** Runs in the page: returns the faults of advice for a log whose name is hostile text. */
function faultsOfAdvice() {
    const faults = [];
    if (!/of the requests hit/.test(document.querySelector(".advice")?.textContent ?? "")) faults.push("there is no advice");
    if (document.querySelectorAll("figure svg").length !== 3) faults.push("there are not three figures");
    if (document.querySelectorAll("table tr").length < 8) faults.push("the table of sizes is missing");
    if (!/\[http\]\s+(#.*\s+)*cache = /.test(document.querySelector("pre")?.textContent ?? "")) faults.push("there is no configuration");
    if (!document.body.textContent.includes("<img src=x onerror=alert(1)>")) faults.push("the name of the log is missing");
    if (document.querySelectorAll("script, img, iframe, link, [onerror]").length > 0) faults.push("the page has more than text and figures");
    return faults;
}

const [page, directory] = process.argv.slice(2);
end(await browse(page, directory, "advise", faultsOfAdvice));
