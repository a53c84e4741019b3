// What a reader would complain of in a page: for reports, for advice and for the console.

import { mkdir } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

export const SCREENS = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844, isMobile: true, hasTouch: true } };

/** Starts Chromium, with more arguments than those of every check. */
export const launch = (more = []) =>
    puppeteer.launch({
        executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
        args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", ...more],
    });

/** Ends the check: with 1 and the faults, if there are any. */
export function end(faults) {
    [...new Set(faults)].slice(0, 40).forEach((fault) => console.error(fault));
    process.exit(faults.length > 0 ? 1 : 0);
}

/** Runs in the page: returns its faults in a theme. */
export function faultsOfPage(theme) {
    const faults = [];
    const fail = (what) => faults.push(what);
    const beyond = document.documentElement.scrollWidth - document.documentElement.clientWidth;
    if (beyond > 1) fail(`the page is ${beyond} pixels wider than the screen`);

    const luminance = (colour) => {
        const linear = (value) => (value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
        const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(Number).map(linear);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    // The colour of the theme behind a page without one.
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.backgroundColor = "Canvas";
    const canvas = luminance(getComputedStyle(probe).backgroundColor);
    probe.remove();
    const paperOf = (element) => {
        for (let one = element; one; one = one.parentElement) {
            const colour = getComputedStyle(one).backgroundColor;
            if (!/, 0\)$|transparent/.test(colour)) return luminance(colour);
        }
        return canvas;
    };
    const paper = paperOf(document.body);
    if (theme === "dark" ? paper > 0.1 : paper < 0.8) fail(`the page's paper has the luminance ${paper}`);
    for (const element of document.querySelectorAll("p, dt, dd, th, td, li, label, a, button, small, figcaption, summary, pre, code, h1, h2, h3, svg text")) {
        if (element.getClientRects().length === 0 || !element.textContent.trim()) continue;
        const style = getComputedStyle(element);
        const isDrawn = element.namespaceURI.endsWith("svg");
        // A figure of plotters has a paper of its own.
        const frame = isDrawn && element.closest("svg.larder-figure")?.querySelector("rect");
        const ink = luminance(isDrawn ? style.fill : style.color);
        const ground = frame ? luminance(getComputedStyle(frame).fill) : paperOf(element);
        const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
        if (contrast < 4.5) fail(`contrast ${contrast.toFixed(1)} of "${element.textContent.trim().slice(0, 40)}"`);
    }
    for (const svg of document.querySelectorAll("svg[role=img], svg.larder-figure")) if (!svg.getAttribute("aria-label")) fail("a figure has no name");
    for (const svg of document.querySelectorAll("svg.larder-figure")) {
        const name = svg.getAttribute("aria-label");
        const fill = luminance(getComputedStyle(svg.querySelector("rect")).fill);
        if (theme === "dark" ? fill > 0.1 : fill < 0.8) fail(`the paper of "${name}" has the luminance ${fill}`);
        const texts = [...svg.querySelectorAll("text")].filter((text) => text.textContent.trim());
        const boxes = texts.map((text) => ({ text: text.textContent.trim(), box: text.getBoundingClientRect() }));
        const frame = svg.getBoundingClientRect();
        boxes.forEach((one, at) => {
            if (one.box.left < frame.left - 1 || one.box.right > frame.right + 1) fail(`"${one.text}" is cut off in "${name}"`);
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
    for (const input of document.querySelectorAll("input, select")) if (!input.labels.length) fail(`#${input.id} has no label`);
    return [...new Set(faults)];
}

/**
 * Opens a file in Chromium, light and dark, on a desktop and on a phone, and on paper. Writes pictures with this name into a directory.
 * Returns the faults, with those that `own` finds in the page.
 */
export async function browse(file, directory, name, own) {
    await mkdir(directory, { recursive: true });
    const browser = await launch();
    const faults = [];
    try {
        const page = await browser.newPage();
        page.on("request", (request) => request.url().startsWith("file:") || faults.push(`the page asks for ${request.url()}`));
        page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
        page.on("dialog", (dialog) => (faults.push(`a script ran: ${dialog.message()}`), dialog.dismiss()));
        for (const [screen, viewport] of Object.entries(SCREENS)) {
            for (const theme of ["light", "dark"]) {
                await page.setViewport(viewport);
                await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
                await page.goto(pathToFileURL(path.resolve(file)).href);
                const found = [...(await page.evaluate(faultsOfPage, theme)), ...(await page.evaluate(own))];
                found.forEach((fault) => faults.push(`${screen}, ${theme}: ${fault}`));
                await page.screenshot({ path: path.join(directory, `${name}-${screen}-${theme}.png`) });
                const figure = await page.$("figure");
                await figure?.screenshot({ path: path.join(directory, `${name}-${screen}-${theme}-figure.png`) });
            }
        }
        await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
        await page.emulateMediaType("print");
        await page.pdf({ path: path.join(directory, `${name}-print.pdf`), format: "A4" });
        if (await page.evaluate(() => [...document.querySelectorAll("nav")].some((nav) => getComputedStyle(nav).display !== "none"))) faults.push("print: the contents are printed");
    } finally {
        await browser.close();
    }
    return faults;
}
