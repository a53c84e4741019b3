// The panels that show the status page as tables.

import { el, format, show, table } from "./elements.js";

const count = (value) => format.exact(value);
const pairs = (caption, object) => table(caption, [["", ([name]) => name], ["", ([, value]) => (typeof value === "number" ? count(value) : String(value)), "number"]], Object.entries(object ?? {}).filter(([, value]) => value !== 0 && value !== null));

/** The makers of routes (NFD's management protocol, "Route origins"). */
const ROUTE_ORIGINS = { 0: "application", 64: "automatic", 65: "client", 66: "prefix announcement", 128: "NLSR", 255: "operator" };

/** Samples below which a share says little: a reader gets the numbers. */
const FEW = 100;
const share = (total) => (row) => (total < FEW ? `${count(row.count)} of ${count(total)}` : format.ratio(row.share));

export function showContent(element, { http, console: more }) {
    const content = more?.http?.content;
    if (!http) return;
    const parts = [];
    if (content) {
        const url = ["URL", (row) => row.url, "long"];
        parts.push(
            el("p", { class: "soft" }, `From each ${count(content.sample)}th exchange of a thread, so the shares are estimates; of responses that were not stored, those are counted for which there was time.`),
            table("Most requested", [url, ["share of requests", share(content.totals.requested), "number"], ["hits", (row) => format.ratio(row.hit_ratio), "number"], ["mean body", (row) => format.bytes(row.bytes), "number"]], content.requested),
            table("Most missed", [url, ["share of misses", share(content.totals.missed), "number"], ["last reason", (row) => row.reason]], content.missed),
            table("Not stored", [url, ["share of these", share(content.totals.refused), "number"], ["reason", (row) => row.reason], ["because of", (row) => row.meaning, "long"]], content.refused),
            table("Largest", [url, ["body", (row) => format.bytes(row.bytes), "number"]], content.largest),
            table("Most purged", [["what", (row) => row.url, "long"], ["purges", (row) => count(row.purges), "number"], ["responses", (row) => count(row.responses), "number"]], content.purged),
        );
    }
    parts.push(pairs("Requests to the origin, by reason (RFC 9211)", http.forwarded), pairs("Responses not stored, by reason", http.not_stored));
    show(element, parts);
}

export function showOrigins(element, { http }) {
    if (!http) return;
    const member = (pool) => pool.servers.map((server) => ({ origin: pool.origin, ...server }));
    const columns = [
        ["origin", (row) => row.origin, "long"],
        ["server", (row) => row.server],
        ["state", (row) => el("span", { class: row.state === "up" ? null : "failed" }, String(row.state))],
        ["in progress", (row) => count(row.outstanding), "number"],
        ["requests", (row) => count(row.requests), "number"],
        ["failures", (row) => count(row.failures), "number"],
        ["left out", (row) => count(row.ejections), "number"],
        ["mean time", (row) => (row.requests > 0 ? format.seconds(row.mean_response_seconds) : "–"), "number"],
    ];
    const names = (http.pools ?? []).flatMap((pool) => pool.names ?? []);
    const files = http.files ?? [];
    const roots = [
        ["origin", (row) => row.origin, "long"],
        ["root", (row) => row.root, "long"],
        ["opened", (row) => count(row.opened), "number"],
        ["looked at", (row) => count(row.checked), "number"],
        ["not served", (row) => count(row.forbidden), "number"],
        ["failed", (row) => count(row.failed), "number"],
        ["last error", (row) => el("span", { class: row.last_error ? "failed" : null }, row.last_error ?? "–"), "long"],
    ];
    show(element, [
        files.length > 0 && table("Files", roots, files),
        (files.length === 0 || (http.pools ?? []).length > 0) && table("Servers", columns, (http.pools ?? []).flatMap(member), `no server: ${http.origin}`),
        names.length > 0 && table("Names", [["name", (row) => row.name], ["addresses", (row) => count(row.addresses), "number"], ["resolutions", (row) => count(row.resolutions), "number"], ["failures", (row) => count(row.failures), "number"], ["last failure", (row) => row.failure ?? "–", "long"]], names),
        pairs("Refused", { "retries beyond retry_budget": http.retries_refused, "requests without a server": http.no_server, "heads too large": http.origin_heads_too_large, "requests that the origin did not answer": http.origin_failures }),
    ]);
}

export function showFleet(element, { fleet, http }) {
    if (!fleet) return;
    const nodes = fleet.nodes ?? [];
    const isSound = (row) => ["following", "catching", null].includes(row.state) && !row.two_nodes;
    const shown = [...nodes.filter((row) => !isSound(row)), ...nodes.filter(isSound)].slice(0, 200);
    const ofZone = (zone) => nodes.filter((node) => node.zone === zone).reduce((sum, node) => sum + node.capacity_bytes, 0);
    const columns = [
        ["node", (row) => (row.node === fleet.node ? el("strong", null, row.node) : row.node)],
        ["state", (row) => el("span", { class: isSound(row) ? null : "failed" }, row.two_nodes ? "two nodes of this name" : row.state ?? "–")],
        ["entry", (row) => count(row.position), "number"],
        ["behind", (row) => count(row.behind), "number"],
        ["zone", (row) => row.zone || "–"],
        ["owns", (row) => (row.capacity_bytes ? format.ratio(row.capacity_bytes / ofZone(row.zone)) : "–"), "number"],
        ["capacity", (row) => format.bytes(row.capacity_bytes), "number"],
        ["address for nodes", (row) => row.address ?? "–"],
        ["heard", (row) => (row.heard_seconds_ago === null ? "this node" : `${format.seconds(row.heard_seconds_ago)} ago`), "number"],
        ["version", (row) => row.version ?? "–"],
    ];
    const log = { log: fleet.log ?? "none", state: fleet.state, "last entry": fleet.position, "proven for": format.seconds(fleet.proven_for_seconds), "purges accepted here": fleet.accepted, "purges that wait for the log": fleet.outbox, "lost nodes": (fleet.lost ?? []).join(", ") || null, problem: fleet.problem };
    const peers = http?.peers;
    show(element, [
        table(`Nodes of ${fleet.name}`, columns, shown),
        nodes.length > 200 && el("p", { class: "soft" }, `and ${count(nodes.length - 200)} more: larder fleet status`),
        pairs("The log of purges", log),
        peers && pairs("Responses between nodes", { "of other nodes": peers.answered, "asked of the origin after all": peers.unanswered, "for other nodes": peers.received, "nodes without an answer": peers.failed, "nodes that lacked a purge": peers.behind, "nodes without a place": peers.refused }),
    ]);
}

export function showNdn(element, { ndn, console: more }) {
    if (!ndn) return;
    const packets = (name) => (row) => count(row.packets[name]);
    const faces = [
        ["face", (row) => row.id, "number"],
        ["URI", (row) => row.uri, "long"],
        ["scope", (row) => row.scope],
        ...["in_interests", "in_data", "in_nacks", "out_interests", "out_data", "out_nacks", "dropped"].map((name) => [name.replace("_", " "), packets(name), "number"]),
        ["marked", (row) => count(row.marked_packets), "number"],
        ["waiting", (row) => format.bytes(row.queued_bytes), "number"],
    ];
    const routes = [
        ["prefix", (row) => row.prefix, "long"],
        ["face", (row) => row.face, "number"],
        ["to", (row) => row.uri ?? "–", "long"],
        ["origin", (row) => ROUTE_ORIGINS[row.origin] ?? row.origin],
        ["cost", (row) => count(row.cost), "number"],
        ["flags", (row) => [row.child_inherit && "child-inherit", row.capture && "capture"].filter(Boolean).join(", ") || "–"],
        ["expires in", (row) => (row.expires_seconds === null ? "–" : format.seconds(row.expires_seconds)), "number"],
    ];
    const store = ndn.content_store;
    const extra = more?.ndn ?? {};
    show(element, [
        pairs("Tables", { "PIT entries": ndn.pit_entries, "FIB entries": ndn.fib_entries, "routes": ndn.rib_routes, "satisfied Interests": ndn.satisfied_interests, "unsatisfied Interests": ndn.unsatisfied_interests }),
        pairs("Content Store", { "Data": store.entries, "used": format.bytes(store.used_bytes), "capacity": format.bytes(store.capacity_bytes), "hits": store.hits, "misses": store.misses, "evictions": store.evictions, "not admitted": store.rejections }),
        table("Content Store by prefix", [["prefix", (row) => row.prefix, "long"], ["hits", (row) => count(row.hits), "number"], ["misses", (row) => count(row.misses), "number"]], store.by_prefix, "not counted: set [ndn] count_by"),
        table("Faces", faces, ndn.faces.slice(0, 100)),
        ndn.faces.length > 100 && el("p", { class: "soft" }, `and ${count(ndn.faces.length - 100)} more: larder ctl face`),
        extra.routes && table("Routes", routes, extra.routes),
        extra.routes && ndn.rib_routes > extra.routes.length && el("p", { class: "soft" }, `and ${count(ndn.rib_routes - extra.routes.length)} more: larder ctl route`),
        extra.strategies && table("Strategies", [["prefix", (row) => row.prefix, "long"], ["strategy", (row) => row.strategy, "long"], ["measurements", (row) => row.measurements.map((one) => `face ${one.face}: ${one.name} ${format.count(one.value)}`).join("; ") || "–", "long"]], extra.strategies),
        pairs("Drops, by reason", ndn.drops),
    ]);
}

export function showPolicy(element, { http, ndn }) {
    const caches = [
        ["HTTP cache", http && { ...http, spec: http.policy.spec }],
        ["Content Store", ndn && { ...ndn.content_store, spec: ndn.content_store.policy.spec }],
    ].filter(([, cache]) => cache);
    const columns = [
        ["cache", ([name]) => name],
        ["policy", ([, cache]) => cache.spec, "long"],
        ["used", ([, cache]) => format.bytes(cache.used_bytes), "number"],
        ["capacity", ([, cache]) => format.bytes(cache.capacity_bytes), "number"],
        ["objects", ([, cache]) => count(cache.objects ?? cache.entries), "number"],
        ["hit ratio since the start", ([, cache]) => format.ratio(cache.hit_ratio), "number"],
        ["evicted", ([, cache]) => count(cache.evicted ?? cache.evictions), "number"],
    ];
    show(element, [table("Caches and their policies", columns, caches)]);
}

export function showNode(element, page) {
    const node = page.console?.node ?? {};
    const warnings = page.console?.warnings ?? [];
    const settings = node.settings ?? [];
    show(element, [
        pairs("Process", { version: page.larder, uptime: format.seconds(page.uptime_seconds), process: String(page.node?.pid), configuration: page.node?.configuration ?? "embedded", memory: format.bytes(page.node?.resident_bytes), "open files": `${count(page.node?.open_files)} of ${count(page.node?.open_files_most)}` }),
        el("h3", null, "Warnings"),
        warnings.length > 0 ? el("ul", { class: "warnings" }, warnings.map((warning) => el("li", null, el("strong", null, warning.what), ` ${warning.remedy}`))) : el("p", { class: "soft" }, "none"),
        table("Settings that differ from the defaults", [["key", (row) => row.key], ["value", (row) => row.value, "long"], ["default", (row) => row.default ?? "–", "long"], ["from", (row) => row.place, "long"]], settings),
    ]);
}
