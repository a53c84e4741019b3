// Elements and numbers. Text from traffic enters the page only here, as text nodes: nothing is parsed.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : String(child))));
    return element;
}

/** Returns an element with these attributes; children that are no nodes become text. */
export const el = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);

/** Returns the same in SVG. */
export const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);

export const byId = (id) => document.getElementById(id);

/** Replaces the children of an element, unless a reader is in them: a selection or the focus would be lost. */
export function show(element, ...children) {
    const selection = document.getSelection();
    const isRead = selection && !selection.isCollapsed && element.contains(selection.anchorNode);
    if (isRead || element.contains(document.activeElement)) return;
    element.replaceChildren(...children.flat().filter(Boolean));
}

/**
 * Returns a table. A column is [title, function of a row, kind], where the kind is "number", "long" or nothing. `least` is the text
 * without a row.
 */
export function table(caption, columns, rows, least = "none") {
    const head = columns.map(([title, , kind]) => el("th", { scope: "col", class: kind }, title));
    const body = rows.map((row) => el("tr", null, columns.map(([, value, kind]) => el("td", { class: kind }, value(row)))));
    if (rows.length === 0) body.push(el("tr", null, el("td", { colspan: columns.length, class: "soft" }, least)));
    return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
        el("table", null, el("caption", null, caption), el("thead", null, el("tr", null, head)), el("tbody", null, body)));
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

function digits(value) {
    const size = Math.abs(value);
    // What is rounded to zero has no sign.
    return value.toLocaleString("en", { signDisplay: "negative", maximumFractionDigits: size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 0.01 || size === 0 ? 2 : 4 });
}

function scaled(value, base, units) {
    let at = 0;
    while (Math.abs(value) >= base && at < units.length - 1) {
        value /= base;
        at += 1;
    }
    return `${digits(value)}${units[at] ? ` ${units[at]}` : ""}`;
}

export const format = {
    count: (value) => (isNumber(value) ? scaled(value, 1000, ["", "k", "M", "G", "T"]) : "–"),
    exact: (value) => (isNumber(value) ? value.toLocaleString("en") : "–"),
    rate: (value) => (isNumber(value) ? `${format.count(value)}/s` : "–"),
    bytes: (value) => (isNumber(value) ? scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]) : "–"),
    byteRate: (value) => (isNumber(value) ? `${format.bytes(value)}/s` : "–"),
    ratio: (value) => (isNumber(value) ? `${digits(Math.round(value * 1000) / 10)} %` : "–"),
    points: (value) => (isNumber(value) ? `${digits(Math.round(value * 1000) / 10)}` : "–"),
    seconds: (value) => {
        if (!isNumber(value)) return "–";
        if (value >= 1) return `${digits(value)} s`;
        return value >= 1e-3 ? `${digits(value * 1e3)} ms` : `${digits(value * 1e6)} µs`;
    },
    time: (unix) => new Date(unix * 1000).toLocaleTimeString("en-GB"),
};
