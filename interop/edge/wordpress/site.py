"""A site with WordPress: people who are logged in pass, all others share pages, which are purged when they change.

The origin answers as WordPress does: no `Cache-Control` for pages of strangers, `no-cache` for those of people with a session."""


NAME, HOST = "wordpress", "blog.example.com"
ORIGIN_FIELDS = ["Host", "Cookie", "X-Forwarded-Proto", "X-Forwarded-For"]
HTML = ("Content-Type", "text/html; charset=UTF-8")
NOT_STORED = [("Cache-Control", "no-cache, must-revalidate, max-age=0"), ("Expires", "Wed, 11 Jan 1984 05:00:00 GMT")]
LOGGED_IN = ("Cookie", "wordpress_logged_in_5c016e8f0f95f039=ada%7C1767225600")


def application():
    """One WordPress; its pages show the number of comments, and the feed how often it was made."""
    state = {"comments": 0, "feeds": 0}

    def answer(method, target, headers, body):
        cookie = headers.get("Cookie", "")
        path = target.split("?")[0]
        if path == "/feed/":
            state["feeds"] += 1
            return 200, [("Content-Type", "application/rss+xml")], f"feed {state['feeds']}\n".encode()
        if path == "/wp-comments-post.php":
            state["comments"] += 1
        page = f"{target}, {state['comments']} comments\n".encode()
        if path == "/wp-login.php" and method == "POST":
            return 302, [HTML, *NOT_STORED, ("Set-Cookie", "wordpress_logged_in_5c016e8f0f95f039=ada; path=/; HttpOnly"), ("Location", "/wp-admin/")], b""
        if path == "/wp-comments-post.php":
            return 302, [HTML, *NOT_STORED, ("Set-Cookie", "comment_author_5c016e8f0f95f039=grace; path=/"), ("Location", "/hello/#comment-2")], b""
        if path.startswith("/wp-admin/") or path in ("/wp-login.php", "/cart/"):
            return 200, [HTML, *NOT_STORED], page
        if "wordpress_logged_in_" in cookie or "comment_author_" in cookie:
            return 200, [HTML, *NOT_STORED], b"with a session: " + page
        if path.startswith("/wp-content/"):
            return 200, [("Content-Type", "text/css"), ("ETag", '"5f3"'), ("Last-Modified", "Mon, 06 Jan 2025 10:00:00 GMT")], page
        if path == "/about":
            return 301, [HTML, ("Location", "/about/")], b""
        if path == "/absent/":
            return 404, [HTML], page
        if path == "/newsletter/":
            return 200, [HTML, ("Set-Cookie", "seen=1; path=/")], page
        return 200, [HTML, ("Link", '<https://blog.example.com/wp-json/>; rel="https://api.w.org/"')], page

    return answer


def twice(label, target, *fields):
    return [Step(label, target, fields=fields), Step(f"{label}, again", target, fields=fields)]


STEPS = [
    *twice("a stranger", "/"),
    Step("a stranger with an analytics cookie", "/", fields=[("Cookie", "_ga=GA1.1.5; _gid=7")]),
    Step("HEAD", "/", method="HEAD"),
    *twice("logged in", "/", LOGGED_IN),
    Step("a stranger after that", "/"),
    *twice("a post", "/hello/"),
    Step("a comment", "/wp-comments-post.php", method="POST", body=b"comment=fine"),
    Step("a stranger after the comment", "/hello/"),
    *twice("with a comment", "/hello/", ("Cookie", "comment_author_5c016e8f0f95f039=grace")),
    *twice("the login page", "/wp-login.php"),
    Step("a login", "/wp-login.php", method="POST", body=b"log=ada&pwd=x"),
    *twice("the administration", "/wp-admin/", LOGGED_IN),
    *twice("a basket", "/cart/", ("Cookie", "woocommerce_items_in_cart=1")),
    *twice("a style", "/wp-content/themes/a/style.css?ver=6.7"),
    Step("a style, logged in", "/wp-content/themes/a/style.css?ver=6.7", fields=[LOGGED_IN]),
    Step("a style, validated", "/wp-content/themes/a/style.css?ver=6.7", fields=[("If-None-Match", '"5f3"')]),
    Step("another version of the style", "/wp-content/themes/a/style.css?ver=6.8"),
    *twice("moved", "/about"),
    *twice("absent", "/absent/"),
    *twice("a page that sets a cookie", "/newsletter/"),
    *twice("a search", "/?s=larder"),
    Step("a campaign", "/hello/?utm_source=mail&utm_medium=x", only="varnish"),
    Step("a campaign and a page number", "/hello/?page=2&gclid=5", only="varnish"),
    Step("the same page number", "/hello/?page=2", only="varnish"),
    Step("forbidden", "/xmlrpc.php", method="POST", body=b"<methodCall/>"),
    Step("the page is purged", "/hello/", purge=True),
    *twice("the purged page", "/hello/"),
    Step("not purged", "/"),
    *twice("the feed", "/feed/"),
    Step("the old feed, refreshed behind", "/feed/", after=2.2),
    Step("the new feed", "/feed/"),
    Step("the origin fails, the old feed", "/feed/", after=2.2, origin="down"),
    Step("the origin fails, a stored page", "/"),
    Step("the origin fails, another page", "/never/"),
    Step("the origin is back", "/never/", origin="up"),
]

AFTER_COMMENT = (
    r"^(a stranger after the comment|a campaign): (body|field age|requests at the origin)",
    "a `POST` that succeeds removes the page that its `Location` names from Larder's cache (RFC 9111, section 4.4)",
)
OWN_ERRORS = (
    r"^forbidden: (body|field (content-language|content-length|content-type|mime-version|retry-after|server|vary|x-squid-error))",
    "the text of an error that the program makes itself, and its fields, are its own",
)
ALLOWED = {
    "nginx": [
        AFTER_COMMENT,
        OWN_ERRORS,
        (r"the page is purged: requests at the origin: .* Larder \[\]", "nginx fetches the page to replace it; Larder removes it, and fetches it when a client asks for it"),
        (r"the purged page: requests at the origin: nginx \[\]", "so the next request is a hit of nginx"),
    ],
    "squid": [
        AFTER_COMMENT,
        OWN_ERRORS,
        (
            r"^a page that sets a cookie, again: (field (age|set-cookie)|requests at the origin)",
            "Squid stores a response with `Set-Cookie`, and leaves the field out of its hits; Larder does not store it",
        ),
        (
            r"feed.*: (body|field age|requests at the origin)",
            "Squid counts the lifetimes of `refresh_pattern` in minutes, and refreshes nothing in the background: each request for the feed asks the origin",
        ),
        (
            r"^the origin is back: (status|body|field (age|content-length|content-type|link)|requests at the origin)",
            "`negative_ttl` stores a 503 as it stores a 404; so Squid repeats it for a minute",
        ),
    ],
    "varnish": [
        AFTER_COMMENT,
        OWN_ERRORS,
        (r"field accept-ranges: varnish \['bytes'\], Larder \[\]", "Varnish adds `Accept-Ranges` to what it may store; Larder passes the origin's on"),
        (
            r"^a style, validated: field (content-type|server): varnish .*, Larder \[\]",
            "Larder's 304 has the fields that RFC 9110 lists for a 304, and no others",
        ),
    ],
}
