// browse.mjs REPORT.html DIRECTORY: opens a report of `larder reproduce` in Chromium, light and dark, on a desktop and on a phone, and on
// paper. Writes a picture of each into DIRECTORY, and ends with 1 and the faults, if there are any.

import path from "node:path";
import process from "node:process";
import { browse, end } from "./pages.mjs";

/** Runs in the page: returns the faults of a report. */
function faultsOfReport() {
    const faults = [];
    const internal = document.body.textContent.match(/\b[A-Z]\w* \{ \w+: /);
    if (internal) faults.push(`an internal name: "${internal[0]}"`);
    if (document.querySelectorAll(".summary li").length !== 5) faults.push("the summary does not have five lines");
    if (!document.querySelector("nav a") || !document.querySelector("figure svg")) faults.push("no table of contents, or no figure");
    if (document.scripts.length > 0) faults.push("the page has a script");
    return faults;
}

const [report, directory] = process.argv.slice(2);
end(await browse(report, directory, path.basename(path.dirname(path.resolve(report))), faultsOfReport));
