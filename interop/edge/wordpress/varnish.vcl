vcl 4.1;

import std;

backend default {
    .host = "127.0.0.1";
    .port = "8000";
}

acl purgers {
    "127.0.0.1";
}

sub vcl_recv {
    set req.http.X-Forwarded-Proto = "http";
    if (req.method == "PURGE") {
        if (client.ip !~ purgers) {
            return (synth(405));
        }
        return (purge);
    }
    if (req.url ~ "^/xmlrpc\.php") {
        return (synth(403));
    }
    if (req.url ~ "^/wp-(content|includes)/") {
        unset req.http.Cookie;
        return (hash);
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    if (req.url ~ "^/(wp-admin/|wp-login\.php|wp-comments-post\.php|cart/|checkout/)") {
        return (pass);
    }
    # People who are logged in, have commented, or have a basket get pages of their own.
    if (req.http.Cookie ~ "(^|; )(wordpress_logged_in_|wp-postpass_|comment_author_|woocommerce_items_in_cart)") {
        return (pass);
    }
    unset req.http.Cookie;
    # Parameters of campaigns select no page.
    if (req.url ~ "[?&](utm_[a-z]+|gclid|fbclid)=") {
        set req.url = regsuball(req.url, "(utm_[a-z]+|gclid|fbclid)=[^&]*&?", "");
        set req.url = regsub(req.url, "[?&]$", "");
    }
    return (hash);
}

sub vcl_backend_response {
    # WordPress says nothing about the lifetime of its pages.
    if (!bereq.uncacheable && !beresp.http.Cache-Control && !beresp.http.Set-Cookie) {
        if (beresp.status == 404) {
            set beresp.ttl = 1m;
        } else if (bereq.url == "/feed/") {
            set beresp.ttl = 1s;
        } else if (bereq.url ~ "^/wp-(content|includes)/") {
            set beresp.ttl = 30d;
        } else if (beresp.status == 200 || beresp.status == 301) {
            set beresp.ttl = 10m;
        }
    }
    set beresp.grace = 1d;
    if (beresp.status >= 500 && bereq.is_bgfetch) {
        return (abandon);
    }
}

sub vcl_deliver {
    set resp.http.X-Frame-Options = "SAMEORIGIN";
}

sub vcl_synth {
    set resp.http.X-Frame-Options = "SAMEORIGIN";
}
