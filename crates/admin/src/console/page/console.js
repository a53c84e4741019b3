// The console: reads the stream of events, keeps bounded arrays of points, and draws.

import { TimeChart } from "./charts.js";
import { byId, el, format } from "./elements.js";
import { showContent, showFleet, showNdn, showNode, showOrigins, showPolicy } from "./panels.js";
import { WhatIf } from "./what_if.js";

/** Seconds, and the most points, of each range. Older points are dropped, so a page may stay open for days. */
const RANGES = { live: [300, 300], hour: [3600, 360], day: [86400, 288] };

const points = { live: [], hour: [], day: [] };
let names = [];
let token = "";
let status = null;
let statusIsNew = false;
let range = "live";

const ratio = (part, whole) => (whole > 0 ? Math.min(1, part / whole) : null);
const objectHits = (p) => ratio(p.hits, p.requests);
const byteHits = (p) => ratio(p.hit_bytes, p.sent_bytes);
const originBytes = (p) => (p.sent_bytes === null ? null : Math.max(0, p.sent_bytes - p.hit_bytes));
const storeHits = (p) => ratio(p.store_hits, p.store_hits + p.store_misses);
const series = (...all) => all.map(([name, value]) => ({ name, value: typeof value === "string" ? (p) => p[value] : value }));

const HTTP_CHARTS = [
    new TimeChart("Requests", format.rate, series(["all", "requests"], ["hits", "hits"])),
    new TimeChart("Hit ratio", format.ratio, series(["objects", objectHits], ["bytes", byteHits]), { most: 1 }),
    new TimeChart("Requests to the origin", format.rate, series(["requests", "origin_requests"])),
    new TimeChart("Bytes", format.byteRate, series(["to clients", "sent_bytes"], ["of these from the origin", originBytes])),
    new TimeChart("Time to the first byte", format.seconds, series(["hits, p50", "hit_p50"], ["hits, p99", "hit_p99"], ["misses, p50", "miss_p50"], ["misses, p99", "miss_p99"]), { log: true }),
    new TimeChart("Errors", format.rate, series(["5xx", "server_errors"], ["origin did not answer", "origin_failures"], ["4xx", "client_errors"], ["broken off", "broken"])),
    new TimeChart("Memory and disk", format.bytes, series(["process", "memory_bytes"], ["HTTP cache", "used_bytes"], ["disk tier", "disk_bytes"], ["Content Store", "store_bytes"])),
    new TimeChart("Processors", (value) => (value === null ? "–" : `${format.count(value)} cores`), series(["busy", "cpu"])),
];
const NDN_CHARTS = [
    new TimeChart("Packets", format.rate, series(["Interests in", "interests"], ["Data out", "data"], ["Nacks out", "nacks"], ["dropped", "drops"])),
    new TimeChart("Content Store hit ratio", format.ratio, series(["Interests", storeHits]), { most: 1 }),
    new TimeChart("Pending Interests", format.count, series(["PIT entries", "pit_entries"])),
    new TimeChart("Packets marked as congested", format.rate, series(["marked", "marks"])),
    new TimeChart("Bytes in send queues", format.bytes, series(["waiting", "queued_bytes"])),
];
const gaugeCharts = new Map();

const TILES = [
    ["Requests", (p) => format.rate(p.requests)],
    ["Object hit ratio", (p) => format.ratio(objectHits(p))],
    ["Byte hit ratio", (p) => format.ratio(byteHits(p))],
    ["To the origin", (p) => format.rate(p.origin_requests)],
    ["Hits, p50", (p) => format.seconds(p.hit_p50)],
    ["Hits, p99", (p) => format.seconds(p.hit_p99)],
    ["Misses, p50", (p) => format.seconds(p.miss_p50)],
    ["Misses, p99", (p) => format.seconds(p.miss_p99)],
    ["Memory", (p) => format.bytes(p.memory_bytes)],
    ["Disk", (p) => format.bytes(p.disk_bytes ?? p.store_disk_bytes)],
    ["Errors", (p) => format.rate((p.server_errors ?? 0) + (p.origin_failures ?? 0)), (p) => p.server_errors + p.origin_failures > 0],
    ["Interests", (p) => format.rate(p.interests)],
];
const tiles = TILES.map(([name, text, isFailed]) => {
    const value = el("dd", { "data-figure": name }, "–");
    byId("tiles").append(el("div", null, el("dt", null, name), value));
    return { value, text, isFailed };
});
byId("now-charts").append(...HTTP_CHARTS.map((chart) => chart.figure));
byId("ndn-charts").append(...NDN_CHARTS.map((chart) => chart.figure));

function pointOf(array) {
    const point = { time: array[0], gauges: array[array.length - 1] };
    names.forEach((name, at) => (point[name] = array[at + 1]));
    return point;
}

function keep(of, point) {
    const [seconds, most] = RANGES[of];
    points[of].push(point);
    while (points[of].length > most || points[of][0].time < point.time - seconds) points[of].shift();
}

let isDue = false;

/** Draws with the next frame of the screen, however many events come until then. A page that is not visible has no frames. */
function refresh() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
        isDue = false;
        draw();
        if (statusIsNew) showStatus();
        statusIsNew = false;
    });
}

function draw() {
    const [seconds] = RANGES[range];
    [...HTTP_CHARTS, ...NDN_CHARTS].forEach((chart) => chart.draw(points[range], seconds));
    const newest = points.live.at(-1) ?? points.hour.at(-1);
    // A policy that has gone has no gauges any more.
    for (const name of Object.keys(newest?.gauges ?? {})) {
        if (gaugeCharts.has(name)) continue;
        const chart = new TimeChart(name, format.count, [{ name: "value", value: (p) => p.gauges[name] ?? null }]);
        gaugeCharts.set(name, chart);
        byId("policy-charts").append(chart.figure);
    }
    for (const [name, chart] of gaugeCharts) {
        if (newest && !(name in newest.gauges)) {
            chart.figure.remove();
            gaugeCharts.delete(name);
        } else {
            chart.draw(points[range], seconds);
        }
    }
    if (points.live.length > 0) {
        const last = points.live.at(-1);
        for (const { value, text, isFailed } of tiles) {
            value.textContent = text(last);
            value.classList.toggle("failed", Boolean(isFailed?.(last)));
        }
    }
}

const whatIf = new WhatIf(byId("what-if-body"), send);
const ndnWhatIf = new WhatIf(byId("ndn-what-if"));

function showStatus() {
    showContent(byId("content-body"), status);
    showOrigins(byId("origins-body"), status);
    showFleet(byId("fleet-body"), status);
    showNdn(byId("ndn-body"), status);
    showPolicy(byId("policy-body"), status);
    showNode(byId("node-body"), status);
    whatIf.show(status.http?.what_if, status.http);
    ndnWhatIf.show(status.ndn?.what_if, null);
    byId("ndn").hidden = !status.ndn;
    byId("fleet").hidden = !status.fleet;
    byId("content").hidden = byId("origins").hidden = byId("what-if").hidden = !status.http;
}

const EVENTS = {
    history: ({ figures, hour, day }) => {
        names = figures;
        points.hour = hour.points.map(pointOf);
        points.day = day.points.map(pointOf);
        // The last minutes are known by 10 s; those by the second follow.
        if (points.live.length === 0) points.live = points.hour.filter((point) => point.time > (points.hour.at(-1)?.time ?? 0) - RANGES.live[0]);
        refresh();
    },
    status: (page) => {
        status = page;
        statusIsNew = true;
        refresh();
    },
    point: (array) => {
        keep("live", pointOf(array));
        refresh();
    },
    hour: (array) => keep("hour", pointOf(array)),
    day: (array) => keep("day", pointOf(array)),
};

const authorized = () => (token ? { authorization: `Bearer ${token}` } : {});

/** Sends a request with the token. Returns the text of the answer, or throws an error with it. */
export async function send(path, order) {
    const body = order === undefined ? {} : { method: "POST", body: JSON.stringify(order) };
    const response = await fetch(path, { ...body, headers: authorized(), cache: "no-store" });
    const text = await response.text();
    if (!response.ok) throw new Error(text.trim());
    return text;
}

function say(text, state) {
    const line = byId("connection");
    if (line.textContent === text) return;
    line.textContent = text;
    line.className = state;
}

/** Reads server-sent events with `fetch`, which sends the token in a header; EventSource cannot. */
async function read(signal) {
    const response = await fetch("/console/events", { headers: authorized(), cache: "no-store", signal });
    if (response.status === 401) {
        say(token ? "the node has another token" : "enter the token of [admin]", "lost");
        // Until another token is entered.
        await new Promise((then) => signal.addEventListener("abort", then));
    }
    if (!response.ok) throw new Error((await response.text()).trim());
    say("live", "live");
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
        const { done, value } = await reader.read();
        if (done) throw new Error("the node has ended the stream");
        text += value;
        let end;
        while ((end = text.indexOf("\n\n")) >= 0) {
            const lines = text.slice(0, end).split("\n");
            text = text.slice(end + 2);
            const of = (field) => lines.find((line) => line.startsWith(`${field}: `))?.slice(field.length + 2);
            EVENTS[of("event")]?.(JSON.parse(of("data")));
        }
    }
}

let reading = new AbortController();

async function follow() {
    for (;;) {
        reading = new AbortController();
        try {
            await read(reading.signal);
        } catch (error) {
            if (error.name !== "AbortError") say(error.message === "Failed to fetch" ? "the node does not answer" : error.message, "lost");
        }
        await new Promise((then) => setTimeout(then, reading.signal.aborted ? 0 : 2000));
    }
}

byId("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    token = byId("token").value.trim();
    reading.abort();
});
for (const input of document.querySelectorAll("input[name=range]")) {
    input.addEventListener("change", () => {
        range = input.value;
        refresh();
    });
}

function answer(place, text, isFailed) {
    byId(place).replaceChildren(text instanceof Node ? text : el("p", { class: isFailed ? "failed" : null }, text));
}

byId("purge-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const scope = byId("purge-scope").value;
    const order = { [scope]: scope === "everything" ? true : byId("purge-value").value.trim(), soft: byId("purge-soft").checked };
    try {
        const { purged } = JSON.parse(await send("/purge", order));
        answer("purge-result", `Purged: ${format.exact(purged)} in memory, and what is on disk.`);
    } catch (error) {
        answer("purge-result", error.message, true);
    }
});

byId("lookup-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
        const found = JSON.parse(await send(`/console/lookup?url=${encodeURIComponent(byId("lookup-url").value.trim())}`));
        const rows = Object.entries(found).flatMap(([name, value]) => (Array.isArray(value) ? value.map((one) => [name, one]) : [[name, value]]));
        const row = ([name, value]) => el("tr", null, el("th", { scope: "row" }, name), el("td", { class: "long" }, String(value)));
        answer("lookup-result", el("div", { class: "scroll" }, el("table", null, el("tbody", null, rows.map(row)))));
        byId("purge-scope").value = "url";
        byId("purge-value").value = byId("lookup-url").value.trim();
    } catch (error) {
        answer("lookup-result", error.message, true);
    }
});

new ResizeObserver(refresh).observe(byId("now-charts"));
follow();
