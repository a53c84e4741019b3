"""The application of the checks with Flask, flask-sock and gunicorn: `express/app.mjs` has the same pages."""

import hashlib
import itertools
import os
import threading
import time
from pathlib import Path

from flask import Flask, Response, redirect, request, send_from_directory, session
from flask_sock import Sock

app = Flask(__name__, static_folder=None)
app.secret_key = "of this test"
sock = Sock(app)
counts = itertools.count(1)
uploaded = {}
acknowledged = {}
lock = threading.Condition()


@app.get("/")
def home():
    body = '<!doctype html><link rel="stylesheet" href="/static/style.css"><p id="out">no script</p><img src="/static/dot.svg"><script src="/static/page.js"></script>'
    return Response(body, headers={"Cache-Control": "public, max-age=60"}, content_type="text/html")


@app.post("/login")
def login():
    session["name"], session["visits"] = request.form["name"], 0
    return redirect("/me", 303)


@app.get("/me")
def me():
    if "name" not in session:
        return Response("nobody", 401, content_type="text/plain")
    session["visits"] += 1
    return Response(f"{session['name']} {session['visits']}", content_type="text/plain")


@app.post("/logout")
def logout():
    session.clear()
    return Response(status=204)


@app.get("/public")
def public():
    return Response(f"page {next(counts)}", headers={"Cache-Control": "public, max-age=60"}, content_type="text/plain")


@app.get("/static/<name>")
def static_file(name):
    return send_from_directory(Path(os.environ["STATIC"]), name, max_age=3600)


@app.post("/upload/<name>")
def upload(name):
    digest = hashlib.sha256()
    while chunk := request.stream.read(65536):
        digest.update(chunk)
        uploaded[name] = uploaded.get(name, 0) + len(chunk)
    return {"bytes": uploaded[name], "sha256": digest.hexdigest()}


@app.get("/uploaded/<name>")
def uploaded_so_far(name):
    return Response(str(uploaded.get(name, 0)), headers={"Cache-Control": "no-store"}, content_type="text/plain")


@app.get("/events/<name>")
def events(name):
    """Each event is sent when the client has acknowledged the one before, so a proxy that holds events back is found."""
    count, every = int(request.args["count"]), float(request.args["every"])

    def stream():
        for number in range(count):
            yield f"id: {number}\ndata: event {number}\n\n"
            with lock:
                if not lock.wait_for(lambda: acknowledged.get(name, -1) >= number, 10):
                    return
            time.sleep(every)

    return Response(stream(), headers={"Cache-Control": "no-cache"}, content_type="text/event-stream")


@app.post("/acknowledge/<name>/<int:number>")
def acknowledge(name, number):
    with lock:
        acknowledged[name] = number
        lock.notify_all()
    return Response(status=204)


@sock.route("/echo")
def echo(ws):
    who = session.get("name", "nobody")
    ws.send(f"hello {who}")
    while True:
        ws.send(ws.receive())
