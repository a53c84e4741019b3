vcl 4.1;

backend default {
    .host = "127.0.0.1";
    .port = "8000";
}

sub vcl_recv {
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    unset req.http.Cookie;
    return (hash);
}

sub vcl_backend_response {
    unset beresp.http.Set-Cookie;
    if (beresp.status == 200) {
        set beresp.ttl = 30d;
    } else if (beresp.status == 404) {
        set beresp.ttl = 1m;
    }
    set beresp.grace = 1d;
}

sub vcl_deliver {
    set resp.http.Access-Control-Allow-Origin = "*";
}
