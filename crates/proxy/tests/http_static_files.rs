//! Failure: an origin of files serves something outside of its folder, an old file, the wrong
//! bytes, or nothing at all.

use crate::wire::http2::Http2;
use crate::wire::{self, Client, Node, Seen};
use larder_http::ContentCoding;
use larder_proxy::rules::Rule;
use larder_proxy::static_files::FilesConfig;
use larder_proxy::{Http, HttpConfig, OriginGroup, Upstream};
use larder_units::ByteSize;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A folder with a root, and a secret beside it.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().unwrap());
        fs::create_dir_all(folder.at("sub")).unwrap();
        fs::create_dir(folder.at("empty")).unwrap();
        fs::write(folder.0.path().join("secret"), "the secret").unwrap();
        folder.write("index.html", b"home");
        folder.write("sub/index.html", b"sub");
        folder.write("a.txt", b"0123456789");
        folder
    }

    fn root(&self) -> PathBuf {
        self.0.path().join("root")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.at(name), bytes).unwrap();
    }

    /// Replaces a file as a deployment does.
    fn replace(&self, name: &str, bytes: &[u8]) {
        self.write(".new", bytes);
        fs::rename(self.at(".new"), self.at(name)).unwrap();
    }

    fn files(&self) -> FilesConfig {
        FilesConfig::new(self.root())
    }

    fn config(&self) -> HttpConfig {
        wire::config(Upstream::Files(self.files()))
    }

    fn node(&self) -> Node {
        Node::with(&self.config())
    }
}

/// Waits until files have strong tags: they have not just been changed.
fn settle() {
    std::thread::sleep(Duration::from_millis(2100));
}

/// Failure: the files of a folder that is mounted at a path are looked for below that path, or a
/// changed one is not seen there.
#[test]
fn a_mounted_folder_is_empty() {
    let (rest, mounted) = (Folder::new(), Folder::new());
    mounted.write("a.txt", b"mounted");
    let group = OriginGroup {
        path: "/files/".to_owned(),
        strip_path: true,
        files: Some(mounted.files()),
        ..OriginGroup::default()
    };
    let config = HttpConfig {
        origins: vec![group],
        ..rest.config()
    };
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    assert_eq!(client.get("/a.txt").text(), "0123456789");
    for _ in 0..3 {
        assert_eq!(client.get("/files/a.txt").text(), "mounted");
    }
    assert_eq!(client.get("/files//sub/").text(), "sub");
    let moved = client.get("/files/sub");
    assert_eq!((moved.status, moved.header("location")), (308, "sub/"));
    assert_eq!(client.get("/files/../secret").status, 404);
    assert_eq!(client.get("/files/%2e%2e/%2e%2e/secret").status, 404);
    mounted.replace("a.txt", b"changed");
    assert_eq!(client.get("/files/a.txt").text(), "changed");
}

fn with(client: &mut Client, target: &str, name: &str, value: &str) -> Seen {
    client.send("GET", target, &[(name, value)], b"")
}

/// Spellings that have led out of the folders of other servers.
#[test]
fn a_spelling_leads_out_of_the_folder() {
    let folder = Folder::new();
    for (target, name) in [
        ("../secret", "up"),
        ("../../../../../../etc/passwd", "far"),
        ("/etc/passwd", "absolute"),
        ("/proc/self/root", "proc"),
        ("/proc/self/fd", "fds"),
        ("..", "parent"),
    ] {
        symlink(target, folder.at(name)).unwrap();
    }
    folder.write(".env", b"the secret");
    fs::create_dir(folder.at(".git")).unwrap();
    folder.write(".git/config", b"the secret");
    let node = folder.node();
    let mut tried = 0;
    let mut refused = |target: &str| {
        let request =
            format!("GET {target} HTTP/1.1\r\nhost: a.example\r\nconnection: close\r\n\r\n");
        for _ in 0..2 {
            let answer = wire::raw(node.address, request.as_bytes());
            let status = answer.get(9..12).unwrap_or_default().to_owned();
            assert!(
                matches!(&*status, "400" | "403" | "404"),
                "{target}: {answer}"
            );
            assert!(
                !answer.contains("the secret") && !answer.contains("root:"),
                "{target}: {answer}"
            );
        }
        tried += 1;
    };
    let ups = [
        "..",
        "%2e%2e",
        "%2E.",
        ".%2e",
        "%252e%252e",
        "%c0%ae%c0%ae",
        "%e0%80%ae%e0%80%ae",
        "..;",
        "..;a=b",
        "..%00",
        "..%0d",
        "%u002e%u002e",
        "....",
        "..%20",
        ".%00.",
    ];
    let slashes = [
        "/", "%2f", "%2F", "%252f", "\\", "%5c", "%255c", "%c0%af", "%c1%9c", "//", "/./", "%u2215",
    ];
    for up in ups {
        for slash in slashes {
            for start in ["/", "/sub/", "//", "/sub%2f"] {
                refused(&format!("{start}{up}{slash}secret"));
                refused(&format!(
                    "{start}{up}{slash}{up}{slash}{up}{slash}etc{slash}passwd"
                ));
            }
        }
    }
    for target in [
        "/up",
        "/far",
        "/absolute",
        "/proc/etc/passwd",
        "/proc/self/environ",
        "/fds/0",
        "/parent/secret",
        "/parent/root/../secret",
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/sub/..%2f.env",
        "/secret",
        "//secret",
        "/a.txt%00",
        "/a.txt%00.png",
        "/a.txt/../../secret",
        "/file:///etc/passwd",
        "/%2fetc%2fpasswd",
        "//etc/passwd",
        "/etc/passwd",
    ] {
        refused(target);
    }
    assert!(tried > 1000);
    assert_eq!(Client::new(&node).get("/a.txt").text(), "0123456789");
}

#[test]
fn a_fifo_or_a_device_holds_a_request() {
    let folder = Folder::new();
    let fifo = folder.at("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.at("socket")).unwrap();
    let node = folder.node();
    let mut client = Client::new(&node);
    for target in ["/fifo", "/socket", "/fifo", "/fifo"] {
        assert_eq!(client.get(target).status, 403, "{target}");
    }
    let devices = Node::with(&wire::config(Upstream::Files(FilesConfig::new("/dev"))));
    for target in ["/zero", "/null", "/full", "/tty"] {
        assert_eq!(Client::new(&devices).get(target).status, 403, "{target}");
    }
    assert_eq!(node.status()["files"][0]["forbidden"], 4);
}

#[test]
fn folders_methods_and_missing_files() {
    let folder = Folder::new();
    let node = folder.node();
    let mut client = Client::new(&node);
    let found = client.get("/");
    assert_eq!((found.status, found.text().as_str()), (200, "home"));
    assert_eq!(found.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(found.header("x-content-type-options"), "nosniff");
    let moved = client.get("/sub?x=/y");
    assert_eq!((moved.status, moved.header("location")), (308, "sub/?x=/y"));
    assert_eq!(client.get("/sub/").text(), "sub");
    for target in ["/empty", "/empty/", "/none", "/a.txt/", "/sub/none"] {
        assert_eq!(client.get(target).status, 404, "{target}");
    }
    let head = client.send("HEAD", "/sub/index.html", &[], b"");
    assert_eq!(
        (head.status, head.header("content-length"), head.body.len()),
        (200, "3", 0)
    );
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let refused = client.send(method, "/a.txt", &[], b"x");
        assert_eq!(
            (refused.status, refused.header("allow")),
            (405, "GET, HEAD"),
            "{method}"
        );
    }
    assert_eq!(client.get("/a.txt").text(), "0123456789");
}

#[test]
fn a_hit_has_an_old_file() {
    let folder = Folder::new();
    let node = folder.node();
    let mut client = Client::new(&node);
    let mut second = Http2::new(&node);
    let mut both = |expected: &str| {
        let one = client.get("/a.txt");
        let stream = second.request("GET", "/a.txt", &[], true);
        let two = second.answer(stream);
        assert_eq!(
            (one.text().as_str(), &two.body[..]),
            (expected, expected.as_bytes())
        );
        one
    };
    both("0123456789");
    assert!(both("0123456789").is_hit());
    folder.replace("a.txt", b"renamed");
    assert!(!both("renamed").is_hit());
    assert!(both("renamed").is_hit());
    // In place, with the same length and the same time of modification.
    let modified = fs::metadata(folder.at("a.txt"))
        .unwrap()
        .modified()
        .unwrap();
    std::thread::sleep(Duration::from_millis(30));
    folder.write("a.txt", b"written");
    let file = fs::File::options()
        .write(true)
        .open(folder.at("a.txt"))
        .unwrap();
    file.set_modified(modified).unwrap();
    both("written");
    fs::remove_file(folder.at("a.txt")).unwrap();
    let mut client = Client::new(&node);
    assert_eq!(client.get("/a.txt").status, 404);
    folder.write("a.txt", b"again");
    assert_eq!(client.get("/a.txt").text(), "again");
}

/// A hit opens no file, and says that the response has just been confirmed.
#[test]
fn a_hit_reads_its_file_or_looks_old() {
    let folder = Folder::new();
    let node = folder.node();
    settle();
    let mut client = Client::new(&node);
    client.get("/a.txt");
    std::thread::sleep(Duration::from_millis(1100));
    let mut second = Http2::new(&node);
    for _ in 0..3 {
        let hit = client.get("/a.txt");
        assert!(hit.is_hit() && hit.header("age") == "0", "{hit:?}");
        let stream = second.request("GET", "/a.txt", &[], true);
        let answer = second.answer(stream);
        assert_eq!(answer.body, b"0123456789");
    }
    let figures = &node.status()["files"][0];
    assert_eq!(
        (&figures["opened"], node.status()["hits"].as_u64()),
        (&1.into(), Some(6))
    );
}

/// With `check`, a stored response answers for a while without a look; a rule's lifetime too.
#[test]
fn a_file_is_looked_at_within_its_time() {
    let folder = Folder::new();
    let slow = FilesConfig {
        check: Duration::from_secs(1),
        ..folder.files()
    };
    let rule: Rule = toml::from_str("path = \"/sub/*\"\nttl = \"1h\"").unwrap();
    let node = Node::with(&HttpConfig {
        rules: vec![rule],
        ..wire::config(Upstream::Files(slow))
    });
    let mut client = Client::new(&node);
    assert_eq!(
        (client.get("/a.txt").status, client.get("/sub/").status),
        (200, 200)
    );
    folder.replace("a.txt", b"new");
    folder.replace("sub/index.html", b"new");
    let deadline = SystemTime::now() + Duration::from_secs(20);
    while client.get("/a.txt").text() != "new" {
        assert!(SystemTime::now() < deadline, "it is never looked at");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(client.get("/sub/").is_hit() && client.get("/sub/").text() == "sub");
}

/// A purge takes a stored file as any other response, although its file is as it was; with a
/// lifetime, a replaced file is served after it.
#[test]
fn a_purge_leaves_files_in_the_cache() {
    let folder = Folder::new();
    let rule: Rule = toml::from_str("path = \"/sub/*\"\nttl = \"1h\"").unwrap();
    let node = Node::with(&HttpConfig {
        rules: vec![rule],
        ..folder.config()
    });
    let mut client = Client::new(&node);
    for (target, order) in [
        ("/a.txt", "{\"url\": \"http://example.test/a.txt\"}"),
        ("/sub/", "{\"prefix\": \"http://example.test/sub\"}"),
    ] {
        client.get(target);
        assert!(client.get(target).is_hit(), "{target}");
        folder.replace("sub/index.html", b"new");
        node.purge(order);
        let again = client.get(target);
        assert!(!again.is_hit(), "{target}: {again:?}");
    }
    assert_eq!(client.get("/sub/").text(), "new");
}

#[test]
fn conditions_and_ranges() {
    let folder = Folder::new();
    let letters: Vec<u8> = (0..5000).map(|at| b'a' + (at % 26) as u8).collect();
    folder.write("letters", &letters);
    settle();
    let node = folder.node();
    // The first round is answered by the origin, the second one by the store.
    for round in 0..2 {
        let mut client = Client::new(&node);
        let target = |name: &str| {
            if round == 0 {
                format!("/letters?{name}")
            } else {
                "/letters".to_owned()
            }
        };
        let whole = client.get(&target("whole"));
        assert_eq!(whole.body, letters);
        let tag = whole.header("etag").to_owned();
        let modified = whole.header("last-modified").to_owned();
        assert!(tag.starts_with('"'), "{tag}");
        for (name, value, status) in [
            ("if-none-match", &*tag, 304),
            ("if-none-match", "\"other\"", 200),
            ("if-modified-since", &*modified, 304),
            ("if-match", &*tag, 200),
            ("if-match", "\"other\"", 412),
            ("if-unmodified-since", "Sun, 06 Nov 1994 08:49:37 GMT", 412),
            ("range", "bytes=10-19", 206),
            ("range", "bytes=-5", 206),
            ("range", "bytes=5000-", 416),
            ("range", "bytes=0-1,4000-4009", 206),
        ] {
            let found = with(
                &mut client,
                &target(
                    &format!("{name}{value}").replace(|c: char| !c.is_ascii_alphanumeric(), ""),
                ),
                name,
                value,
            );
            assert_eq!(found.status, status, "{round} {name}: {value}: {found:?}");
            match value {
                "bytes=10-19" => assert_eq!(found.body, &letters[10..20]),
                "bytes=-5" => assert_eq!(found.body, &letters[4995..]),
                "bytes=0-1,4000-4009" => {
                    assert!(
                        found
                            .header("content-type")
                            .starts_with("multipart/byteranges")
                    );
                    let text = found.text();
                    assert!(
                        text.contains("\r\n\r\nab\r\n--") && text.contains("bytes 4000-4009/5000"),
                        "{text}"
                    );
                }
                _ => {}
            }
        }
        let fields = [("range", "bytes=0-9"), ("if-range", &*tag)];
        assert_eq!(client.send("GET", &target("i"), &fields, b"").status, 206);
        let fields = [("range", "bytes=0-9"), ("if-range", "\"other\"")];
        assert_eq!(client.send("GET", &target("j"), &fields, b"").body, letters);
    }
}

#[test]
fn compressed_files_go_to_those_who_accept_them() {
    let folder = Folder::new();
    folder.write("x.js", b"plain");
    folder.write("x.js.br", b"brotli");
    folder.write("x.js.gz", b"gzip");
    folder.write("only.js.gz", b"gzip");
    settle();
    let node = folder.node();
    let mut tags = Vec::new();
    for _ in 0..2 {
        let mut client = Client::new(&node);
        for (accepts, coding, body) in [
            ("gzip, deflate, br", "br", "brotli"),
            ("gzip", "gzip", "gzip"),
            ("identity", "", "plain"),
            ("br;q=0, gzip;q=0.5", "gzip", "gzip"),
        ] {
            let found = with(&mut client, "/x.js", "accept-encoding", accepts);
            assert_eq!(
                (found.header("content-encoding"), found.text().as_str()),
                (coding, body),
                "{accepts}"
            );
            assert_eq!(found.header("vary"), "Accept-Encoding", "{accepts}");
            assert_eq!(
                found.header("content-type"),
                "text/javascript; charset=utf-8"
            );
            tags.push((found.header("etag").to_owned(), coding));
            let range = [("accept-encoding", accepts), ("range", "bytes=1-2")];
            let part = client.send("GET", "/x.js", &range, b"");
            assert_eq!(
                (part.status, part.text().as_str()),
                (206, &body[1..3]),
                "{accepts}"
            );
        }
        assert_eq!(
            with(&mut client, "/only.js", "accept-encoding", "gzip").status,
            404
        );
    }
    tags.sort();
    tags.dedup();
    assert_eq!(tags.len(), 3, "{tags:?}");
    // A new compressed file, and an old one: both are seen at once.
    let mut client = Client::new(&node);
    let mut coding = |accepts: &str| {
        with(&mut client, "/a.txt", "accept-encoding", accepts)
            .header("content-encoding")
            .to_owned()
    };
    assert_eq!(
        (coding("gzip"), coding("gzip")),
        (String::new(), String::new())
    );
    folder.write("a.txt.gz", b"gz");
    assert_eq!(
        (coding("gzip"), coding("br")),
        ("gzip".to_owned(), String::new())
    );
    std::thread::sleep(Duration::from_millis(30));
    folder.replace("a.txt", b"newer");
    assert_eq!(coding("gzip"), "");
}

#[test]
fn an_application_of_one_page_loses_its_paths() {
    let folder = Folder::new();
    folder.write("404.html", b"the page");
    let steps = ["$uri", "$uri/", "/index.html"]
        .map(|step| step.parse().unwrap())
        .to_vec();
    let page = OriginGroup {
        host: Some("page.example".to_owned()),
        path: "/".to_owned(),
        files: Some(FilesConfig {
            not_found: Some("/404.html".to_owned()),
            ..folder.files()
        }),
        ..OriginGroup::default()
    };
    let config = HttpConfig {
        origins: vec![page],
        ..wire::config(Upstream::Files(FilesConfig {
            steps,
            ..folder.files()
        }))
    };
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    for _ in 0..2 {
        let found = client.get("/users/7");
        assert_eq!((found.status, found.text().as_str()), (200, "home"));
        assert_eq!(found.header("cache-control"), "no-cache");
        assert_eq!(client.get("/").header("cache-control"), "");
    }
    client.host = "page.example".to_owned();
    for method in ["GET", "HEAD"] {
        let missing = client.send(method, "/users/7", &[], b"");
        assert_eq!((missing.status, missing.header("etag")), (404, ""));
        assert_eq!(missing.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(missing.header("content-length"), "8");
    }
    assert_eq!(client.get("/users/7").text(), "the page");
}

/// A file that is larger than `max_object` is sent and not stored.
#[test]
fn a_large_file_is_stored_or_cut() {
    let folder = Folder::new();
    let bytes: Vec<u8> = (0..3_000_000u32).flat_map(u32::to_le_bytes).collect();
    folder.write("large", &bytes);
    let mut config = folder.config();
    config.cache.max_object = ByteSize::from_mib(1);
    let node = Node::with(&config);
    for _ in 0..2 {
        let mut client = Client::new(&node);
        let found = client.get("/large");
        assert!(found.body == bytes && !found.is_hit());
        assert!(
            !found.header("cache-status").contains("stored"),
            "{}",
            found.header("cache-status")
        );
        let part = with(&mut client, "/large", "range", "bytes=5000000-5999999");
        assert_eq!(part.status, 206);
        assert!(part.body == bytes[5_000_000..6_000_000]);
        let parts = with(&mut client, "/large", "range", "bytes=0-0,9000000-9000001");
        assert_eq!(parts.status, 206, "{parts:?}");
        assert!(parts.body.len() < 1000 && !parts.cut);
    }
    assert!(node.status()["bytes"].as_u64().unwrap_or(0) < 1 << 20);
}

/// The connection ends: no other bytes stand in the place of those that are gone.
#[test]
fn a_file_that_changes_while_it_is_sent_is_padded() {
    for change in ["truncate", "write"] {
        let folder = Folder::new();
        folder.write("large", &vec![b'x'; 32 << 20]);
        let mut config = folder.config();
        config.cache.max_object = ByteSize::from_mib(1);
        let node = Node::with(&config);
        let mut stream = std::net::TcpStream::connect(node.address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
            .write_all(b"GET /large HTTP/1.1\r\nhost: a\r\n\r\n")
            .unwrap();
        let mut read = 0;
        let mut buffer = vec![0; 64 << 10];
        while read < 1 << 20 {
            read += std::io::Read::read(&mut stream, &mut buffer).unwrap();
        }
        std::thread::sleep(Duration::from_millis(30));
        let file = fs::File::options()
            .write(true)
            .open(folder.at("large"))
            .unwrap();
        if change == "truncate" {
            file.set_len(4 << 20).unwrap();
        } else {
            std::os::unix::fs::FileExt::write_at(&file, b"y", 31 << 20).unwrap();
        }
        let mut is_other = false;
        while let Ok(more @ 1..) = std::io::Read::read(&mut stream, &mut buffer) {
            is_other |= buffer[..more].contains(&b'y') || buffer[..more].contains(&0);
            read += more;
        }
        assert!(read < 32 << 20 && !is_other, "{change}: {read}");
    }
}

/// A reload with another folder serves that one; the former one's files are gone.
#[test]
fn a_reload_keeps_the_former_folder() {
    let (one, two) = (Folder::new(), Folder::new());
    one.write("a.txt", b"one");
    two.write("a.txt", b"two");
    let node = one.node();
    let mut client = Client::new(&node);
    assert_eq!(
        (client.get("/a.txt").text(), client.get("/a.txt").text()),
        ("one".into(), "one".into())
    );
    let reload = |config: &HttpConfig| {
        let http: &Http = node.http.as_ref().unwrap();
        http.reload(config)
            .map(|reloaded| http.take_over(reloaded).unwrap())
    };
    reload(&two.config()).unwrap();
    assert_eq!(client.get("/a.txt").text(), "two");
    assert_eq!(
        node.status()["files"][0]["root"],
        format!("file://{}", two.root().display())
    );
    // A folder that is none changes nothing.
    let none = wire::config(Upstream::Files(FilesConfig::new(two.at("none"))));
    let problem = reload(&none)
        .err()
        .map(|error| error.to_string())
        .unwrap_or_default();
    assert!(
        problem.contains("[http] origin") && problem.contains("create it"),
        "{problem}"
    );
    assert_eq!(client.get("/a.txt").text(), "two");
}

/// Rules change the path that the files see, and the fields of hits.
#[test]
fn rules_do_not_reach_files() {
    let folder = Folder::new();
    let rules = [
        "path = \"/old/*\"\nrewrite = \"/$1\"",
        "response_headers = { set = { Cache-Control = \"max-age=60\" } }",
        "path = \"/sub/*\"\ndeny = \"all\"",
    ];
    let config = HttpConfig {
        rules: rules.map(|rule| toml::from_str(rule).unwrap()).to_vec(),
        ..folder.config()
    };
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    for text in ["0123456789", "changed"] {
        for _ in 0..2 {
            for target in ["/old/a.txt", "/a.txt"] {
                let found = client.get(target);
                assert_eq!(
                    (found.text().as_str(), found.header("cache-control")),
                    (text, "max-age=60"),
                    "{target}"
                );
            }
        }
        assert!(
            client.get("/a.txt").is_hit(),
            "the client's lifetime is not the cache's"
        );
        assert_eq!(client.get("/sub/").status, 403);
        folder.replace("a.txt", b"changed");
    }
}

/// Failure: a coded form of a file outlives the file, or has its strong entity tag.
#[test]
fn a_coded_form_outlives_its_file() {
    let folder = Folder::new();
    let old = b"old text ".repeat(1000);
    folder.write("a.txt", &old);
    settle();
    let mut config = folder.config();
    config.compression.codings = ContentCoding::ALL.to_vec();
    let node = Node::with(&config);
    let mut client = Client::new(&node);
    let mut ask = || with(&mut client, "/a.txt", "accept-encoding", "gzip");
    let text = |seen: &Seen| {
        let mut text = Vec::new();
        let mut reader = flate2::read::GzDecoder::new(&seen.body[..]);
        reader.read_to_end(&mut text).unwrap();
        text
    };
    for _ in 0..3 {
        let seen = ask();
        assert_eq!(seen.header("content-encoding"), "gzip");
        assert!(seen.header("etag").starts_with("W/") && text(&seen) == old);
    }
    node.await_figure("coded_forms", 1);
    let stored = ask();
    assert!(stored.is_hit() && !stored.header("content-length").is_empty());
    let new = b"new text ".repeat(1000);
    folder.replace("a.txt", &new);
    assert!(text(&ask()) == new);
}
