vcl 4.1;

import std;

backend default {
    .host = "127.0.0.1";
    .port = "ORIGIN_PORT";
}

sub vcl_recv {
    if (req.url ~ "^/admin" || req.http.host ~ "(?i)^secret\.test(:[0-9]+)?$" || (req.url ~ "^/readonly" && req.method !~ "^(GET|HEAD)$")) {
        return (synth(403));
    }
    set req.http.X-Real-IP = client.ip;
    # Varnish has appended the address of the proxy: the client is before it.
    # BEHIND set req.http.X-Real-IP = std.ip(regsub(regsub(req.http.X-Forwarded-For, ", *127\.0\.0\.1$", ""), "^.*, *", ""), "0.0.0.0");
}
