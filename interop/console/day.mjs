// day.mjs CONSOLE: serves the console's own page with the events of a day, 86,400 readings, as fast as it reads them. Compares the memory of
// the page after the first hour with that after the day. Ends with 1 and the faults, if there are any.

import http from "node:http";
import process from "node:process";
import { end, launch } from "../report/pages.mjs";

const [console_] = process.argv.slice(2);
const HOUR = 3600;
const DAY = 24 * HOUR;
/** Seconds between two status pages: five in a node. Here it is more, because they are most of the bytes. */
const STATUS = 60;
/** A day of points that are not dropped takes some 30 MB, and a curve through them as much again. */
const MORE_HEAP = 4 << 20;
/** Elements: one that each drawing leaves would be more. */
const MORE_NODES = 50;
/** Readings that are sent together, and drawn together. */
const TOGETHER = 60;
const START = 1_800_000_000;

const faults = [];
const fail = (what) => faults.push(what);

/** Returns the first event of each kind that the node sends to its page. */
async function firstEvents(kinds) {
    const stop = new AbortController();
    const response = await fetch(`${console_}console/events`, { signal: stop.signal });
    let text = "";
    for await (const piece of response.body.pipeThrough(new TextDecoderStream())) {
        text += piece;
        const found = kinds.map((kind) => text.match(new RegExp(`event: ${kind}\ndata: (.*)\n\n`))?.[1]);
        if (found.every(Boolean)) {
            stop.abort();
            return found.map((data) => JSON.parse(data));
        }
    }
    throw new Error("the node has ended its stream");
}

const [history, status, point] = await firstEvents(["history", "status", "point"]);
const event = (kind, data) => `event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`;
const requestsAt = 1 + history.figures.indexOf("requests");
/** Returns the reading of a second. Its request rate is its number; each hour another policy runs, with other gauges. */
function reading(second) {
    const gauges = Object.fromEntries([0, 1, 2].map((gauge) => [`http policy${Math.floor(second / HOUR)}.${gauge}`, second % 97]));
    const figures = point.slice(1, -1).map((value, at) => (at + 1 === requestsAt ? second : (value ?? 0) + (second % 13)));
    return [START + second, ...figures, gauges];
}

function eventsOf(second) {
    const array = reading(second);
    const rings = [["hour", 10], ["day", 300]].filter(([, step]) => second % step === 0).map(([ring]) => event(ring, array));
    return [second % STATUS === 0 && event("status", { ...status, uptime_seconds: second }), event("point", array), ...rings].filter(Boolean).join("");
}

let stream = null;
/** Sends the readings of these seconds, and waits for a slow reader. */
async function send(from, to) {
    for (let second = from; second < to; second += TOGETHER) {
        const events = Array.from({ length: Math.min(TOGETHER, to - second) }, (_, at) => eventsOf(second + at));
        if (!stream.write(events.join(""))) await new Promise((then) => stream.once("drain", then));
        await new Promise((then) => setTimeout(then, 8));
    }
}

const server = http.createServer(async (request, response) => {
    if (request.url === "/console/events") {
        response.writeHead(200, { "content-type": "text/event-stream" });
        stream = response;
        response.write(event("history", { ...history, hour: { step: 10, points: [] }, day: { step: 300, points: [] } }));
        return;
    }
    // Everything else is the node's.
    const file = await fetch(new URL(request.url, console_), { headers: { accept: request.headers.accept ?? "*/*" } });
    const fields = ["content-type", "content-security-policy"].map((name) => [name, file.headers.get(name)]);
    response.writeHead(file.status, Object.fromEntries(fields.filter(([, value]) => value)));
    response.end(Buffer.from(await file.arrayBuffer()));
});
await new Promise((then) => server.listen(0, "127.0.0.1", then));

const browser = await launch(["--js-flags=--expose-gc"]);
try {
    const page = await browser.newPage();
    page.on("pageerror", (error) => fail(`error: ${error.message}`));
    page.on("console", (message) => message.type() === "error" && fail(`console: ${message.text()}`));
    // Each piece that arrives is drawn: a day has no time for the frames of a screen.
    await page.evaluateOnNewDocument(() => {
        window.drawings = 0;
        window.requestAnimationFrame = (draw) => queueMicrotask(() => ((window.drawings += 1), draw()));
    });
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    const isAt = (second) => page.waitForFunction((text) => document.querySelector('[data-figure="Requests"]').textContent === text, { timeout: 60000 }, shown(second));
    const shown = (second) => `${(second / (second >= 1000 ? 1000 : 1)).toLocaleString("en", { maximumFractionDigits: second >= 10000 ? 1 : 2 })}${second >= 1000 ? " k" : ""}/s`;
    const devtools = await page.createCDPSession();
    const measure = async () => {
        await page.evaluate(() => gc());
        const { metrics } = await devtools.send("Performance.getMetrics");
        const of = (name) => metrics.find((metric) => metric.name === name).value;
        const elements = await page.evaluate(() => document.querySelectorAll("*").length);
        return { heap: of("JSHeapUsedSize"), nodes: of("Nodes"), listeners: of("JSEventListeners"), elements };
    };
    await devtools.send("Performance.enable");
    // The longest of the three ranges, and a table beside each figure.
    await page.click("#range input[value=day]");
    await page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));
    await send(0, HOUR);
    await isAt(HOUR - 1);
    const hour = await measure();
    const begun = Date.now();
    await send(HOUR, DAY);
    await isAt(DAY - 1);
    const day = await measure();
    const text = ({ heap, nodes, listeners, elements }) => `${(heap / 2 ** 20).toFixed(1)} MiB, ${nodes} nodes, ${elements} elements, ${listeners} listeners`;
    console.log(`after an hour: ${text(hour)}; after a day: ${text(day)} (${((Date.now() - begun) / 1000).toFixed(1)} s)`);
    if (day.heap > hour.heap + MORE_HEAP) fail(`the memory of the page grows: ${text(hour)}, then ${text(day)}`);
    if (day.nodes > hour.nodes + MORE_NODES || day.elements > hour.elements + MORE_NODES) fail(`the elements of the page grow: ${text(hour)}, then ${text(day)}`);
    if (day.listeners > hour.listeners + 50) fail(`the listeners of the page grow: ${text(hour)}, then ${text(day)}`);
    const drawings = await page.evaluate(() => window.drawings);
    console.log(`${drawings} drawings`);
    if (drawings < 2 * MORE_NODES) fail(`the page has drawn ${drawings} times only`);
    const gauges = await page.$eval("#policy-charts", (charts) => charts.children.length);
    if (gauges !== 3) fail(`${gauges} figures of gauges, of which 3 are in use`);
} finally {
    await browser.close();
    server.close();
    server.closeAllConnections();
}
end(faults);
