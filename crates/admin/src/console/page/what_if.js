// What other policies and sizes would do: curves, sentences, and a form that applies one of them.

import { CurveChart } from "./charts.js";
import { el, format, show, table } from "./elements.js";

const both = (a, b) => Math.hypot(a, b);
const at = (cells, policy, capacity) => cells.find((cell) => cell.policy === policy && cell.capacity === capacity);
const signed = (value) => `${value < 0 ? "−" : "+"}${format.points(Math.abs(value))}`;
const within = (error, isLeast) => `${isLeast ? "± at least" : "±"}${format.points(error)}`;

/** Returns the sentences for a report. A difference within its error, or within one that is only known to be wider, gets no advice. */
export function sentences({ policy, capacity, measured, cells }) {
    const now = at(cells, policy, capacity);
    if (!now) return [];
    const lines = [];
    const ofPolicy = cells.filter((cell) => cell.policy === policy).sort((a, b) => a.capacity - b.capacity);
    const saving = (cell) => {
        const left = Math.max(1e-9, 1 - now.byte_hit_ratio);
        return [(cell.byte_hit_ratio - now.byte_hit_ratio) / left, both(cell.byte_error, now.byte_error) / left, cell.error_is_least || now.error_is_least];
    };
    const larger = ofPolicy.find((cell) => cell.capacity > capacity);
    if (larger) {
        const [share, error, isLeast] = saving(larger);
        if (share > error && !isLeast) lines.push(`${format.bytes(larger.capacity - capacity)} more would save ${format.points(share)} % of origin bytes, ${within(error, false)} points.`);
    }
    const smaller = ofPolicy.findLast((cell) => cell.capacity < capacity);
    if (smaller) {
        const [share, error, isLeast] = saving(smaller);
        if (-share > error && !isLeast) lines.push(`${format.bytes(capacity - smaller.capacity)} less would cost ${format.points(-share)} % more origin bytes, ${within(error, false)} points.`);
    }
    // An error that is only known to be wider decides nothing.
    const rivals = cells
        .filter((cell) => cell.capacity === capacity && cell.policy !== policy && !cell.error_is_least)
        .sort((a, b) => b.object_hit_ratio - a.object_hit_ratio);
    if (now.error_is_least) {
        lines.push("The error of the present policy's estimate is not known, so others are not compared with it.");
    } else if (rivals.length > 0) {
        const [best] = rivals;
        const gain = best.object_hit_ratio - now.object_hit_ratio;
        const error = both(best.object_error, now.object_error);
        lines.push(gain > error
            ? `${best.policy} instead of ${policy}: ${signed(gain)} points of object hit ratio, ${within(error, false)}.`
            : "No other policy is better by more than its error.");
    }
    if (measured) {
        const seen = `predicted ${format.ratio(now.object_hit_ratio)} ${within(now.object_error, now.error_is_least)}, measured ${format.ratio(measured.object_hit_ratio)}`;
        lines.push(`As it runs now (${policy}, ${format.bytes(capacity)}): ${seen} of requests.`);
    }
    return lines;
}

/** The panel of one cache. `send` sends a request with the token; without it, the panel has no form. */
export class WhatIf {
    constructor(element, send) {
        this.send = send;
        this.kind = "object";
        this.chart = new CurveChart("Hit ratio over cache size");
        this.lines = el("ul", { class: "sentences" });
        this.numbers = el("div");
        this.state = el("p", { class: "soft" }, "There are no estimates yet.");
        this.policy = el("select", { id: "apply-policy" });
        this.capacity = el("select", { id: "apply-capacity" });
        this.result = el("div", { id: "apply-result", role: "status" });
        const choice = (value, text) => {
            const input = el("input", { type: "radio", name: `${element.id}-kind`, value, checked: value === this.kind });
            input.addEventListener("change", () => {
                this.kind = value;
                this.draw();
            });
            return el("label", null, input, ` ${text}`);
        };
        const form = el("form", { class: "apply" }, el("h3", null, "Try it"),
            el("label", { for: "apply-policy" }, "Policy"), this.policy, el("label", { for: "apply-capacity" }, "Size"), this.capacity,
            el("p", { class: "soft" }, "Takes effect at once; needs a token in the configuration. The file stays as it is."),
            el("button", { type: "submit" }, "Apply"), this.result);
        form.addEventListener("submit", (event) => {
            event.preventDefault();
            void this.apply();
        });
        this.body = el("div", { hidden: true }, this.lines,
            el("fieldset", null, el("legend", null, "Hits of"), choice("object", "objects"), choice("byte", "bytes")), this.chart.figure, this.numbers);
        this.form = form;
        this.form.hidden = true;
        element.append(this.state, this.body);
        if (send) element.append(this.form);
    }

    /** Shows the report of a cache, whose counters are `totals`. */
    show(report, totals) {
        this.http = totals;
        this.report = report ?? null;
        this.follow();
        const hasReport = Boolean(this.report?.cells?.length);
        this.body.hidden = !hasReport;
        // The result of a trial stays while the estimates of the new policy begin.
        this.form.hidden = !hasReport && !this.trial;
        if (!hasReport) {
            this.state.textContent = "There are no estimates yet: they need some minutes of traffic.";
            return;
        }
        const { requests, seconds } = this.report;
        this.state.textContent = `From a sample of the keys of ${format.exact(requests)} requests in ${format.seconds(seconds)}.`;
        this.lines.replaceChildren(...sentences(this.report).map((line) => el("li", null, line)));
        this.choose(this.policy, [...new Set(this.report.cells.map((cell) => cell.policy))], this.report.policy, String);
        this.choose(this.capacity, this.sizes(), this.report.capacity, (size) => format.bytes(size));
        this.draw();
    }

    sizes() {
        return [...new Set(this.report.cells.map((cell) => cell.capacity))].sort((a, b) => a - b);
    }

    /** Fills a select once; later reports keep the reader's choice. */
    choose(select, values, current, text) {
        const wanted = values.map(String).join("\n");
        if (select.dataset.values === wanted) return;
        select.dataset.values = wanted;
        select.replaceChildren(...values.map((value) => el("option", { value, selected: value === current }, text(value))));
    }

    draw() {
        if (!this.report) return;
        const { cells, policy, capacity, measured } = this.report;
        const policies = [...new Set(cells.map((cell) => cell.policy))];
        const ratio = `${this.kind}_hit_ratio`;
        const error = `${this.kind}_error`;
        const lines = policies.map((name) => ({
            name: name === policy ? `${name} (runs now)` : name,
            points: cells.filter((cell) => cell.policy === name).sort((a, b) => a.capacity - b.capacity).map((cell) => [cell.capacity, cell[ratio], cell[error]]),
        }));
        const marks = measured ? [{ x: capacity, y: measured[ratio], colour: policies.indexOf(policy), name: `measured: ${format.ratio(measured[ratio])}` }] : [];
        this.chart.draw(lines, marks);
        const columns = [["policy", (row) => row.name], ...this.sizes().map((size, number) => [format.bytes(size), (row) => {
            const point = row.points.find(([of]) => of === size) ?? row.points[number];
            return point ? `${format.ratio(point[1])} ±${format.points(point[2])}` : "–";
        }, "number"])];
        show(this.numbers, table(`Estimated hit ratio of ${this.kind}s, by size`, columns, lines));
    }

    async apply() {
        const order = { policy: this.policy.value, capacity: Number(this.capacity.value) };
        const warning = this.evictions(order.capacity);
        const asked = JSON.stringify(order);
        if (warning && this.asked !== asked) {
            this.asked = asked;
            this.result.replaceChildren(el("p", { class: "failed" }, `${warning} Press Apply again to do it.`));
            return;
        }
        this.asked = null;
        try {
            const { cells } = this.report ?? { cells: [] };
            const applied = JSON.parse(await this.send("/console/apply", order));
            const cell = at(cells, order.policy, order.capacity);
            this.trial = { ...order, cell, requests: this.http.requests, hits: this.http.hits, measured: el("p", null, "Waiting for requests.") };
            this.result.replaceChildren(el("p", null, `${order.policy} with ${format.bytes(order.capacity)} runs now, until the next reload or restart. To keep it, write into the file:`),
                el("pre", null, applied.lines), this.trial.measured);
        } catch (error) {
            this.result.replaceChildren(el("p", { class: "failed" }, error.message));
        }
    }

    /** Returns what a size evicts at once, or nothing. */
    evictions(capacity) {
        const { used_bytes: used, objects } = this.http ?? {};
        if (!(used > capacity)) return null;
        const share = (used - capacity) / used;
        return `This evicts ${format.bytes(used - capacity)} at once, about ${format.exact(Math.ceil(share * objects))} of ${format.exact(objects)} responses.`;
    }

    /** Compares what was predicted for an applied choice with what has come since. */
    follow() {
        if (!this.trial || !this.http) return;
        const { cell, requests, hits, measured } = this.trial;
        const since = this.http.requests - requests;
        if (since <= 0) return;
        const predicted = cell ? `predicted ${format.ratio(cell.object_hit_ratio)} ${within(cell.object_error, cell.error_is_least)}` : "not predicted";
        measured.textContent = `Since then: ${predicted}, measured ${format.ratio((this.http.hits - hits) / since)} of ${format.exact(since)} requests.`;
    }
}
