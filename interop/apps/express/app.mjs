// The application of the checks with Express, express-session and ws: `flask/app.py` has the same pages.

import { createHash } from "node:crypto";
import { once, EventEmitter } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import express from "express";
import session from "express-session";
import { WebSocketServer } from "ws";

const app = express();
const sessions = session({ secret: "of this test", resave: false, saveUninitialized: false });
const uploaded = new Map();
const acknowledged = new Map();
const acknowledgements = new EventEmitter();
let count = 0;

app.use(sessions);
app.use("/static", express.static(process.env.STATIC, { maxAge: "1h" }));

app.get("/", (_, response) => {
    response.set("Cache-Control", "public, max-age=60").type("html");
    response.send('<!doctype html><link rel="stylesheet" href="/static/style.css"><p id="out">no script</p><img src="/static/dot.svg"><script src="/static/page.js"></script>');
});

app.post("/login", express.urlencoded({ extended: false }), (request, response) => {
    request.session.name = request.body.name;
    request.session.visits = 0;
    response.redirect(303, "/me");
});

app.get("/me", (request, response) => {
    response.type("text");
    if (!request.session.name) return response.status(401).send("nobody");
    request.session.visits += 1;
    response.send(`${request.session.name} ${request.session.visits}`);
});

app.post("/logout", (request, response) => request.session.destroy(() => response.status(204).end()));

app.get("/public", (_, response) => {
    count += 1;
    response.set("Cache-Control", "public, max-age=60").type("text").send(`page ${count}`);
});

app.post("/upload/:name", async (request, response) => {
    const digest = createHash("sha256");
    for await (const chunk of request) {
        digest.update(chunk);
        uploaded.set(request.params.name, (uploaded.get(request.params.name) ?? 0) + chunk.length);
    }
    response.json({ bytes: uploaded.get(request.params.name), sha256: digest.digest("hex") });
});

app.get("/uploaded/:name", (request, response) => {
    response.set("Cache-Control", "no-store").type("text").send(String(uploaded.get(request.params.name) ?? 0));
});

// Each event is sent when the client has acknowledged the one before, so a proxy that holds events back is found.
app.get("/events/:name", async (request, response) => {
    const { name } = request.params;
    response.set({ "Cache-Control": "no-cache", "Content-Type": "text/event-stream" }).flushHeaders();
    for (let number = 0; number < Number(request.query.count); number += 1) {
        response.write(`id: ${number}\ndata: event ${number}\n\n`);
        while ((acknowledged.get(name) ?? -1) < number) {
            await once(acknowledgements, "one", { signal: AbortSignal.timeout(10000) });
        }
        await sleep(1000 * Number(request.query.every));
    }
    response.end();
});

app.post("/acknowledge/:name/:number", (request, response) => {
    acknowledged.set(request.params.name, Number(request.params.number));
    acknowledgements.emit("one");
    response.status(204).end();
});

process.on("unhandledRejection", () => {});
const server = app.listen(Number(process.argv[2]), "127.0.0.1");
const sockets = new WebSocketServer({ noServer: true });
server.on("upgrade", (request, socket, head) => {
    if (request.url !== "/echo") return socket.destroy();
    sessions(request, {}, () => {
        sockets.handleUpgrade(request, socket, head, (ws) => {
            ws.send(`hello ${request.session.name ?? "nobody"}`);
            ws.on("message", (data, binary) => ws.send(data, { binary }));
        });
    });
});
