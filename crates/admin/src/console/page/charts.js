// Figures: lines over time, and any lines. Beside each figure stands a table with the same numbers.

import { el, format, svg } from "./elements.js";

const MARGIN = { left: 58, right: 10, top: 8, bottom: 24 };

/** Returns up to about five round values between two bounds; for bytes, multiples of a power of two. */
function ticks(from, to, areBytes = false) {
    const raw = (to - from) / 4 || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = areBytes ? 2 ** Math.ceil(Math.log2(raw)) : [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
    const values = [];
    for (let value = Math.ceil(from / step) * step; value <= to + step * 1e-9; value += step) values.push(value);
    return values;
}

/** Returns powers of ten between two bounds. */
function powers(from, to) {
    const values = [];
    for (let power = Math.ceil(Math.log10(from) - 1e-9); power <= Math.log10(to) + 1e-9; power += 1) values.push(10 ** power);
    return values.length ? values : [from];
}

const FORGET = (element) => element.replaceChildren();

/** The frame of a figure: axes, and a place for lines. */
class Frame {
    constructor(caption) {
        this.plot = svg("svg", { role: "img", "aria-label": caption });
        this.caption = caption;
    }

    /** Begins a drawing. `x` and `y` are {from, to, log, marks: [[value, text]]}. */
    begin(x, y) {
        FORGET(this.plot);
        const width = Math.max(this.plot.clientWidth, 200);
        const height = Math.max(this.plot.clientHeight, 100);
        this.plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
        const scale = (axis, start, end) => {
            const of = axis.log ? Math.log : (value) => value;
            const span = of(axis.to) - of(axis.from) || 1;
            return (value) => start + ((of(value) - of(axis.from)) / span) * (end - start);
        };
        // The longest label has to have room; a digit is 6 to 7 pixels wide.
        const left = Math.max(MARGIN.left, 12 + 6.8 * Math.max(0, ...y.marks.map(([, text]) => text.length)));
        this.x = scale(x, left, width - MARGIN.right);
        this.y = scale(y, height - MARGIN.bottom, MARGIN.top);
        for (const [value, text] of y.marks) {
            const at = this.y(value);
            this.plot.append(
                svg("line", { class: "grid", x1: left, x2: width - MARGIN.right, y1: at, y2: at }),
                svg("text", { x: left - 6, y: at + 4, "text-anchor": "end" }, text),
            );
        }
        let free = -Infinity;
        for (const [value, text] of x.marks) {
            const at = this.x(value);
            const half = text.length * 4.5;
            if (at - half < free) continue;
            free = at + half + 8;
            const anchor = at + half > width - 2 ? "end" : "middle";
            this.plot.append(svg("text", { x: anchor === "end" ? width - 2 : at, y: height - 5, "text-anchor": anchor }, text));
        }
    }

    /** Draws a line through [x, y]; a y of null makes a gap. */
    line(points, colour) {
        let path = "";
        let isDown = false;
        for (const [x, y] of points) {
            if (y === null || y === undefined) {
                isDown = false;
                continue;
            }
            path += `${isDown ? "L" : "M"}${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`;
            if (!isDown) path += "h.01";
            isDown = true;
        }
        this.plot.append(svg("path", { class: `series c${colour}`, d: path }));
    }
}

/** Lines over time. A series is {name, value: function of a point}. */
export class TimeChart {
    constructor(caption, unit, series, { log = false, most = null } = {}) {
        Object.assign(this, { unit, series, log, most });
        this.frame = new Frame(caption);
        this.values = series.map(() => el("b", null, "–"));
        this.details = el("details", null, el("summary", null, "Table"));
        this.details.addEventListener("toggle", () => this.tabulate());
        const legend = series.map(({ name }, at) => el("li", { class: `c${at}` }, `${name} `, this.values[at]));
        this.figure = el("figure", null, el("figcaption", null, caption), el("ul", { class: "legend" }, legend), this.frame.plot, this.details);
    }

    draw(points, seconds) {
        const lines = this.series.map(({ value }) => points.map((point) => [point.time, value(point) ?? null]));
        this.lines = lines;
        const all = lines.flat().map(([, y]) => y).filter((y) => y !== null && (!this.log || y > 0));
        const end = points.length ? points[points.length - 1].time : Date.now() / 1000;
        const x = { from: end - seconds, to: end, marks: this.times(end, seconds) };
        const low = this.log ? 10 ** Math.floor(Math.log10(Math.min(...all, 1e-3))) : 0;
        const high = all.length ? Math.max(...all) : 0;
        const top = this.most ?? (high > 0 ? high * 1.05 : 1);
        const y = this.log ? { from: low, to: Math.max(top, low * 10), log: true } : { from: 0, to: top };
        y.marks = (this.log ? powers(y.from, y.to) : ticks(y.from, y.to, this.unit === format.bytes || this.unit === format.byteRate)).map((value) => [value, this.unit(value)]);
        this.frame.begin(x, y);
        lines.forEach((line, at) => this.frame.line(line.map(([time, value]) => [time, this.log && value !== null ? Math.max(value, low) : value]), at));
        lines.forEach((line, at) => (this.values[at].textContent = this.unit(line.length ? line[line.length - 1][1] : null)));
        const now = this.series.map(({ name }, at) => `${name} ${this.values[at].textContent}`).join(", ");
        this.frame.plot.setAttribute("aria-label", `${this.frame.caption}: now ${now}`);
        this.tabulate();
    }

    times(end, seconds) {
        const step = seconds <= 300 ? 60 : seconds <= 3600 ? 600 : 4 * 3600;
        const marks = [];
        for (let ago = seconds; ago >= 0; ago -= step) {
            const text = ago === 0 ? "now" : ago >= 3600 ? `−${ago / 3600} h` : `−${ago / 60} min`;
            marks.push([end - ago, text]);
        }
        return marks;
    }

    tabulate() {
        if (!this.details.open || !this.lines) return;
        const rows = this.series.map(({ name }, at) => {
            const values = this.lines[at].map(([, value]) => value).filter((value) => value !== null);
            const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
            const all = values.length ? [values[values.length - 1], Math.min(...values), mean, Math.max(...values)] : [null, null, null, null];
            return el("tr", null, el("th", { scope: "row" }, name), all.map((value) => el("td", { class: "number" }, this.unit(value))));
        });
        const head = ["", "now", "lowest", "mean", "highest"].map((title) => el("th", { scope: "col", class: title ? "number" : null }, title));
        const body = el("table", null, el("thead", null, el("tr", null, head)), el("tbody", null, rows));
        this.details.replaceChildren(this.details.firstChild, el("div", { class: "scroll" }, body));
    }
}

/** Lines over capacities, with error bars. A line is {name, points: [[x, y, error]]}. */
export class CurveChart {
    constructor(caption) {
        this.frame = new Frame(caption);
        this.legend = el("ul", { class: "legend" });
        this.figure = el("figure", null, el("figcaption", null, caption), this.legend, this.frame.plot);
    }

    draw(lines, marks) {
        const points = lines.flatMap((line) => line.points);
        if (points.length === 0) return;
        const sizes = [...new Set(points.map(([x]) => x))].sort((a, b) => a - b);
        const low = Math.max(0, Math.min(...points.map(([, y, error]) => y - error), ...marks.map((mark) => mark.y)) - 0.02);
        const high = Math.min(1, Math.max(...points.map(([, y, error]) => y + error), ...marks.map((mark) => mark.y)) + 0.02);
        const x = { from: sizes[0], to: sizes[sizes.length - 1], log: true, marks: sizes.map((size) => [size, format.bytes(size)]) };
        this.frame.begin(x, { from: low, to: high, marks: ticks(low, high).map((value) => [value, format.ratio(value)]) });
        lines.forEach((line, at) => {
            this.frame.line(line.points, at % 6);
            for (const [size, y, error] of line.points) {
                const across = this.frame.x(size);
                const bar = { x1: across, x2: across, y1: this.frame.y(Math.min(high, y + error)), y2: this.frame.y(Math.max(low, y - error)) };
                this.frame.plot.append(svg("line", { class: `error c${at % 6}`, ...bar }));
            }
        });
        for (const { x: size, y, colour, name } of marks) {
            this.frame.plot.append(svg("circle", { class: `mark c${colour % 6}`, cx: this.frame.x(size), cy: this.frame.y(y), r: 5 }, svg("title", null, name)));
        }
        this.legend.replaceChildren(...lines.map((line, at) => el("li", { class: `c${at % 6}` }, line.name)));
        this.frame.plot.setAttribute("aria-label", `${this.frame.caption}; the table below has the numbers`);
    }
}
