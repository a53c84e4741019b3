vcl 4.1;

import vsthrottle;

backend default {
    .host = "127.0.0.1";
    .port = "8000";
}

sub vcl_recv {
    set req.http.X-Real-IP = client.ip;
    if (req.url ~ "^/internal/") {
        return (synth(403, "forbidden"));
    }
    # Each key may send five requests a minute.
    if (req.url ~ "^/v1/search" && vsthrottle.is_denied(req.http.X-Api-Key, 5, 60s)) {
        return (synth(429, "too many requests"));
    }
    # The catalogue is the same for all callers, and changes often.
    if (req.method == "GET" && req.url ~ "^/v1/catalogue/") {
        return (hash);
    }
    return (pass);
}

sub vcl_backend_response {
    if (bereq.url ~ "^/v1/catalogue/" && beresp.status == 200) {
        set beresp.ttl = 2s;
        set beresp.grace = 1h;
    }
    if (beresp.status >= 500 && bereq.is_bgfetch) {
        return (abandon);
    }
}

sub vcl_backend_error {
    set beresp.http.Content-Type = "application/json";
    synthetic("""{"error":"unavailable"}
""");
    return (deliver);
}

sub vcl_synth {
    set resp.http.Content-Type = "application/json";
    if (resp.status == 429) {
        set resp.http.Retry-After = "60";
    }
    synthetic({"{"error":""} + resp.reason + """"}
""");
    return (deliver);
}
