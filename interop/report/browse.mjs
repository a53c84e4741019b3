// browse.mjs REPORT.html DIRECTORY: opens a report of `larder reproduce` in Chromium, light and dark, on a desktop and on a phone, and on
// paper. Writes a picture of each into DIRECTORY, and ends with 1 and the faults, if there are any.

import { mkdir } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [report, directory] = process.argv.slice(2);
const SCREENS = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844, isMobile: true, hasTouch: true } };

/** Runs in the page: returns what a reader would complain of. */
function faultsOfPage(theme) {
    const faults = [];
    const fail = (what) => faults.push(what);
    const beyond = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (beyond > 1) fail(`the page is ${beyond} pixels wider than the screen`);

    const channels = (colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number);
    const luminance = (colour) => {
        const [r, g, b] = channels(colour).map((value) => ((value /= 255), value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const paper = luminance(getComputedStyle(document.body).backgroundColor);
    if (theme === "dark" ? paper > 0.1 : paper < 0.8) fail(`the page's paper has the luminance ${paper}`);
    for (const element of document.querySelectorAll("body, small, .soft, .holds, .listed, .fails, a, dt")) {
        const ink = luminance(getComputedStyle(element).color);
        const contrast = (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        if (contrast < 4.5) fail(`contrast ${contrast.toFixed(1)} of "${element.textContent.trim().slice(0, 40)}"`);
    }
    for (const svg of document.querySelectorAll("svg.larder-figure")) {
        const name = svg.getAttribute("aria-label");
        const fill = luminance(getComputedStyle(svg.querySelector("rect")).fill);
        if (theme === "dark" ? fill > 0.1 : fill < 0.8) fail(`the paper of "${name}" has the luminance ${fill}`);
        const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
        const boxes = texts.map((text) => ({ text: text.textContent.trim(), box: text.getBoundingClientRect() }));
        boxes.forEach((one, at) => {
            for (const other of boxes.slice(at + 1)) {
                const right = Math.min(one.box.right, other.box.right) - Math.max(one.box.left, other.box.left);
                const down = Math.min(one.box.bottom, other.box.bottom) - Math.max(one.box.top, other.box.top);
                if (right > 1 && down > 3) fail(`"${one.text}" and "${other.text}" overlap in "${name}"`);
            }
        });
    }
    for (const link of document.querySelectorAll("a[href^='#']")) {
        if (!document.getElementById(decodeURIComponent(link.hash.slice(1)))) fail(`${link.hash} leads nowhere`);
    }
    const internal = document.body.textContent.match(/\b[A-Z]\w* \{ \w+: /);
    if (internal) fail(`an internal name: "${internal[0]}"`);
    if (document.querySelectorAll(".summary li").length !== 5) fail("the summary does not have five lines");
    if (!document.querySelector("nav a") || !document.querySelector("figure svg")) fail("no table of contents, or no figure");
    if (document.scripts.length > 0) fail("the page has a script");
    return faults;
}

await mkdir(directory, { recursive: true });
const browser = await puppeteer.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"],
});
const faults = [];
try {
    const page = await browser.newPage();
    page.on("request", (request) => request.url().startsWith("file:") || faults.push(`the page asks for ${request.url()}`));
    page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
    const name = path.basename(path.dirname(path.resolve(report)));
    for (const [screen, viewport] of Object.entries(SCREENS)) {
        for (const theme of ["light", "dark"]) {
            await page.setViewport(viewport);
            await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
            await page.goto(pathToFileURL(path.resolve(report)).href);
            for (const fault of await page.evaluate(faultsOfPage, theme)) faults.push(`${screen}, ${theme}: ${fault}`);
            await page.screenshot({ path: path.join(directory, `${name}-${screen}-${theme}.png`) });
            const figure = await page.$("figure");
            await figure?.screenshot({ path: path.join(directory, `${name}-${screen}-${theme}-figure.png`) });
        }
    }
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
    await page.emulateMediaType("print");
    await page.pdf({ path: path.join(directory, `${name}-print.pdf`), format: "A4" });
    if (await page.evaluate(() => getComputedStyle(document.querySelector("nav")).display !== "none")) faults.push("print: the contents are printed");
} finally {
    await browser.close();
}
[...new Set(faults)].forEach((fault) => console.error(fault));
process.exit(faults.length > 0 ? 1 : 0);
