// console.mjs CONSOLE CACHE TOKEN DIRECTORY UNIX-URI: opens the console of a node while there is load on its cache, on a desktop and on a
// phone, light and dark. Writes pictures into DIRECTORY, and ends with 1 and the faults, if there are any.

import { spawnSync } from "node:child_process";
import http from "node:http";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import process from "node:process";
import { SCREENS, end, faultsOfPage, launch } from "../report/pages.mjs";

const [console_, cache, token, directory, unix] = process.argv.slice(2);

/** Texts that run a script where they are parsed as HTML, as an attribute, as a URL or as a script. */
const INJECTIONS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "\"><iframe srcdoc='<script>parent.alert(1)</script>'>",
    "'-alert(1)-'",
    "javascript:alert(1)",
    "</td></table><body onload=alert(1)>",
    "{{constructor.constructor('alert(1)')()}}",
    "${alert(1)}",
    "\\u003cimg src=x onerror=alert(1)\\u003e",
    "<math><mtext></table><img src=x onerror=alert(1)>",
    "\u202e<b>x</b>",
    "data: x\n\nevent: status\ndata: {}",
];

const faults = [];
const fail = (what) => faults.push(what);
const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });

/** Sends a request whose target, host and fields are any bytes that HTTP allows. */
function request(target, host = "www.example", fields = {}) {
    return new Promise((then) => {
        const ask = http.request(`${cache}/`, { agent, path: target, headers: { host, ...fields } }, (response) => {
            response.resume();
            response.on("end", then);
        });
        ask.on("error", then);
        ask.end();
    });
}

let isLoaded = true;
/** Requests of a skewed popularity, until the end. */
async function load() {
    let seed = 1;
    while (isLoaded) {
        seed = (seed * 48271) % 2147483647;
        const rank = Math.floor(1500 ** ((seed % 100000) / 100000));
        await request(seed % 9 === 0 ? `/private/${rank % 5}` : `/page/${rank}`);
    }
}

/** Sends hostile URLs and hosts, often enough to be in the tables. */
async function attack() {
    for (let round = 0; round < 40; round += 1) {
        for (const text of INJECTIONS) {
            // What no request line may have is percent-encoded; the node encodes angle brackets and quotes.
            const raw = text.replace(/[\s\u0080-\uffff]/g, (one) => encodeURIComponent(one));
            await request(`/private/${raw}`);
            await request(`/private/${encodeURIComponent(text)}?q=${raw}`);
            await request("/private/host", raw.replace(/[^\x21-\x7e]/g, ""));
        }
    }
}

/** Texts that HTTP allows in the value of a field, as they are. */
const RAW = INJECTIONS.filter((text) => /^[\x20-\x7e]*$/.test(text));

/** Sends hostile text that nothing encodes: tags of purges, and fields that select variants. */
async function attackRaw() {
    const authorization = `Bearer ${token}`;
    for (const text of [...INJECTIONS, ...INJECTIONS]) {
        const { status } = await fetch(`${console_}purge`, { method: "POST", headers: { authorization }, body: JSON.stringify({ tag: text }) });
        if (status !== 200) fail(`a purge of the tag ${text} is answered ${status}`);
    }
    // As often as the most frequent ones: the tables show these, and the cache is too small for all.
    for (let round = 0; round < 100; round += 1) {
        for (const text of RAW) await request("/kind/a", "www.example", { "user-agent": text });
        await request("/passed/a");
    }
}

// Forms are sent by the Enter key: the page moves while figures arrive, and a click might miss.
const wait = (page, what, test, ...values) => page.waitForFunction(test, { timeout: 40000 }, ...values).catch(() => fail(`not in time: ${what}`));

async function checkThemes(page) {
    for (const [screen, viewport] of Object.entries(SCREENS)) {
        for (const theme of ["light", "dark"]) {
            await page.setViewport(viewport);
            await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: theme }]);
            // A change between phone and desktop loads the page again, which forgets the token.
            if ((await page.$eval("#connection", (element) => element.textContent)) !== "live") await useToken(page);
            await page.evaluate(() => new Promise((then) => setTimeout(then, 1500)));
            for (const fault of await page.evaluate(faultsOfPage, theme)) fail(`${screen}, ${theme}: ${fault}`);
            await page.evaluate(() => scrollTo(0, 0));
            await page.screenshot({ path: path.join(directory, `console-${screen}-${theme}.png`) });
            await page.screenshot({ path: path.join(directory, `console-${screen}-${theme}-whole.png`), fullPage: true });
        }
    }
}

async function checkLiveFigures(page) {
    const figure = (name) => page.$eval(`[data-figure="${name}"]`, (element) => element.textContent);
    await wait(page, "a request rate", () => /[1-9]/.test(document.querySelector('[data-figure="Requests"]').textContent));
    const seen = new Set();
    for (let second = 0; second < 15 && seen.size < 3; second += 1) {
        seen.add(await figure("Requests"));
        await page.evaluate(() => new Promise((then) => setTimeout(then, 1000)));
    }
    if (seen.size < 3) fail(`the request rate stands still: ${[...seen]}`);
    if (!/%/.test(await figure("Object hit ratio"))) fail("there is no hit ratio");
    if (!/[1-9]/.test(await figure("Memory"))) fail("there is no memory");
    await page.click("#range input[value=hour]");
    await page.click("#range input[value=live]");
}

async function checkNothingMade(page) {
    const made = await page.evaluate(() => document.querySelectorAll("main script, main img, main iframe, main b:not(.legend b), main math, main [onload], main [onerror], main [srcdoc]").length);
    if (made > 0) fail(`text of clients has made ${made} elements`);
}

async function checkHostileText(page) {
    await wait(page, "hostile URLs in the tables", () => document.querySelector("#content-body").textContent.includes("alert(1)"));
    await wait(page, "hostile names in the tables", () => document.querySelector("#ndn-body").textContent.includes("alert"));
    await checkNothingMade(page);
    if (!(await page.$eval("#content-body", (element) => /set-cookie/.test(element.textContent)))) fail("the reason of a refusal is missing");
    await request("/page/1");
    await page.focus("#lookup-url");
    await page.keyboard.type("http://www.example/page/1");
    await page.keyboard.press("Enter");
    await wait(page, "a looked-up URL", () => /fresh for/.test(document.querySelector("#lookup-result").textContent));
    if (!(await page.$eval("#lookup-result", (element) => element.textContent.includes("onerror")))) fail("the lookup shows no ETag");
    await attackRaw();
    const shows = (place, texts) => wait(page, `${texts[0]} in ${place}`, (place, texts) => texts.every((text) => document.querySelector(place).textContent.includes(text)), place, texts);
    await shows("#content-body", ["<img src=x onerror=alert(1)>", "</td></table><body onload=alert(1)>", "rule 2: path /passed/*: pass true", "alert('passed')"]);
    await page.$eval("#lookup-url", (element) => (element.value = "http://www.example/kind/a"));
    await page.focus("#lookup-url");
    await page.keyboard.press("Enter");
    await shows("#lookup-result", RAW.map((text) => `for user-agent: ${text}`));
    await shows("#lookup-result", ["alert('rule')"]);
    await checkNothingMade(page);
}

const enterToken = async (page, text) => {
    await page.$eval("#token", (element) => (element.value = ""));
    await page.focus("#token");
    await page.keyboard.type(text);
    await page.keyboard.press("Enter");
};

async function useToken(page) {
    await enterToken(page, token);
    await wait(page, "the stream with the token", () => document.querySelector("#connection").textContent === "live");
}

/** A page without the token has no figures, and asks for it; also on this machine. */
async function checkToken(page) {
    await wait(page, "the wish for a token", () => document.querySelector("#connection").textContent === "enter the token of [admin]");
    await enterToken(page, "another");
    await wait(page, "a refused token", () => document.querySelector("#connection").textContent === "the node has another token");
    if ((await page.$eval('[data-figure="Requests"]', (element) => element.textContent)) !== "–") fail("there are figures without the token");
    await page.focus("#purge-value");
    await page.keyboard.type("http://www.example/");
    await page.keyboard.press("Enter");
    await wait(page, "a refused purge", () => /token/.test(document.querySelector("#purge-result").textContent));
    await useToken(page);
}

async function checkPurge(page) {
    const purge = async () => {
        await page.select("#purge-scope", "tag");
        await page.$eval("#purge-value", (element) => (element.value = "page"));
        await page.focus("#purge-value");
        await page.keyboard.press("Enter");
    };
    await purge();
    await wait(page, "a purge", () => /Purged: [1-9]/.test(document.querySelector("#purge-result").textContent));
}

/** A size that evicts is applied at the second time of asking only. */
async function checkSmallSize(page) {
    const running = async () => (await (await fetch(`${console_}status`)).json()).http.capacity_bytes;
    const before = await running();
    await page.$eval("#apply-capacity", (select) => (select.value = select.options[0].value));
    await page.focus("#what-if-body form button");
    await page.keyboard.press("Enter");
    await wait(page, "a warning of evictions", () => /evicts [\d.]+ [KM]iB at once, about [\d,]+ of [\d,]+ responses/.test(document.querySelector("#apply-result").textContent));
    if ((await running()) !== before) fail("a smaller size was applied without asking");
}

/** Applies a size, as soon as there are estimates. */
async function checkWhatIf(page) {
    await wait(page, "estimates", () => document.querySelectorAll("#what-if-body .sentences li").length > 0);
    const lines = await page.$$eval("#what-if-body .sentences li", (all) => all.map((line) => line.textContent));
    if (!lines.some((line) => /instead of|No other policy/.test(line))) fail(`sentences: ${lines.join(" | ")}`);
    const predicted = await page.$$eval("#what-if-body .sentences li", (all) => all.map((line) => line.textContent.match(/predicted ([\d.]+) %.*measured ([\d.]+) %/)).find(Boolean)?.slice(1).map(Number));
    if (!predicted || Math.abs(predicted[0] - predicted[1]) > 10) fail(`predicted and measured: ${predicted}`);
    await (await page.$("#what-if")).screenshot({ path: path.join(directory, "console-what-if.png") });
    await checkSmallSize(page);
    await page.select("#apply-policy", "lru");
    const size = await page.$eval("#apply-capacity", (select) => (select.value = select.options[select.options.length - 2].value));
    await page.focus("#what-if-body form button");
    await page.keyboard.press("Enter");
    await wait(page, "an applied choice", () => /cache = /.test(document.querySelector("#apply-result pre")?.textContent ?? ""));
    const status = await (await fetch(`${console_}status`)).json();
    if (status.http.capacity_bytes !== Number(size) || status.http.policy.spec !== "lru") fail(`applied ${size}, runs ${status.http.capacity_bytes}`);
    await wait(page, "predicted and actual", () => /Since then: predicted .* measured/.test(document.querySelector("#apply-result").textContent));
    await wait(page, "a warning of the trial", () => /as tried here/.test(document.querySelector("#node-body").textContent));
}

/** Every control is reached by the Tab key, in the order of the page. */
async function checkKeyboard(page) {
    await page.evaluate(() => (document.activeElement?.blur(), scrollTo(0, 0)));
    const reached = new Set();
    for (let presses = 0; presses < 120; presses += 1) {
        await page.keyboard.press("Tab");
        const name = await page.evaluate(() => document.activeElement?.id || document.activeElement?.textContent?.trim().slice(0, 20) || document.activeElement?.name);
        reached.add(name);
    }
    for (const wanted of ["Skip to the figures", "token", "Now", "Node", "lookup-url", "purge-scope", "purge-value", "apply-policy"]) {
        if (!reached.has(wanted)) fail(`the keyboard does not reach ${wanted}`);
    }
}

await mkdir(directory, { recursive: true });
const browser = await launch();
const loads = [load(), load()];
try {
    // Interests with hostile names; nobody answers them.
    for (const text of INJECTIONS.slice(0, 4)) {
        const name = `/${encodeURIComponent(text)}/x`;
        spawnSync(process.env.LARDER, ["get", name, "-o", "/dev/null", "--retries", "0"], { env: { ...process.env, NDN_CLIENT_TRANSPORT: unix }, timeout: 8000 });
    }
    const page = await browser.newPage();
    page.on("dialog", (dialog) => (fail(`a script of a client ran: ${dialog.message()}`), dialog.dismiss()));
    page.on("request", (one) => one.url().startsWith(console_) || fail(`the page asks for ${one.url()}`));
    page.on("pageerror", (error) => fail(`error: ${error.message}`));
    page.on("console", (message) => message.type() === "error" && !/401|403/.test(message.text()) && fail(`console: ${message.text()}`));
    await page.setViewport(SCREENS.desktop);
    await page.goto(console_);
    await checkToken(page);
    const attacked = attack();
    await checkLiveFigures(page);
    await attacked;
    await checkHostileText(page);
    await checkPurge(page);
    await checkThemes(page);
    await page.setViewport(SCREENS.desktop);
    await useToken(page);
    await checkWhatIf(page);
    await checkKeyboard(page);
} finally {
    isLoaded = false;
    await Promise.all(loads);
    agent.destroy();
    await browser.close();
}
end(faults);
