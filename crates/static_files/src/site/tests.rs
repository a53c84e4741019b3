use super::*;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tempfile::TempDir;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::create_dir_all(at("root/sub/deep")).unwrap();
    fs::create_dir(at("root/empty")).unwrap();
    fs::create_dir(at("root/.git")).unwrap();
    fs::write(at("secret"), "secret").unwrap();
    for (name, text) in [
        ("index.html", "home"),
        ("a.txt", "a"),
        ("a b.txt", "space"),
        ("sub/index.html", "sub"),
        ("sub/deep/x.js", "plain"),
        (".git/config", "git"),
    ] {
        fs::write(at("root").join(name), text).unwrap();
    }
    folder
}

fn site(folder: &TempDir) -> FilesConfig {
    FilesConfig::new(folder.path().join("root"))
}

fn text(opened: Opened) -> String {
    match opened {
        Opened::File(mut file) => {
            let mut text = String::new();
            file.file.read_to_string(&mut text).unwrap();
            text
        }
        Opened::Redirect(target) => format!("to {target}"),
        Opened::NotFound(None) => "nothing".to_owned(),
        Opened::NotFound(Some(_)) => "page".to_owned(),
        Opened::Forbidden => "forbidden".to_owned(),
        Opened::Failed => "failed".to_owned(),
    }
}

fn got(site: &Site, path: &str) -> String {
    text(site.find(path, Accepts::default()))
}

/// Failure: a path leads to another file, or a folder without its slash breaks relative links.
#[test]
fn paths_lead_to_their_files() {
    let folder = folder();
    let site = Site::open(site(&folder)).unwrap();
    for (path, expected) in [
        ("/", "home"),
        ("/index.html", "home"),
        ("/a.txt", "a"),
        ("/a%20b.txt", "space"),
        ("/sub", "to sub/"),
        ("/sub/", "sub"),
        ("/sub/index.html", "sub"),
        ("/a.txt/", "nothing"),
        ("/a.txt/b", "nothing"),
        ("/none", "nothing"),
        ("/empty", "nothing"),
        ("/empty/", "nothing"),
        ("/.git/config", "nothing"),
        ("/sub/../a.txt", "nothing"),
    ] {
        assert_eq!(got(&site, path), expected, "{path}");
    }
    assert_eq!(got(&site, &format!("/{}", "n".repeat(300))), "nothing");
}

/// Failure: a link, a magic link or a name leads out of the root, or a link within it does not.
#[test]
fn nothing_outside_of_the_root_is_opened() {
    let folder = folder();
    let root = folder.path().join("root");
    for (target, name) in [
        ("../secret", "up"),
        ("/etc/passwd", "etc"),
        ("/proc/self/root", "proc"),
        ("/proc/self/fd", "fds"),
        ("..", "parent"),
        ("loop", "loop"),
        ("a.txt", "inner"),
        ("sub/../a.txt", "detour"),
        ("sub", "inner-folder"),
    ] {
        symlink(target, root.join(name)).unwrap();
    }
    symlink(root.join("a.txt"), root.join("absolute")).unwrap();
    let config = site(&folder);
    let site = Site::open(config.clone()).unwrap();
    for path in [
        "/up",
        "/etc",
        "/proc/etc/passwd",
        "/fds/0",
        "/parent/secret",
        "/loop",
        "/absolute",
    ] {
        assert_eq!(got(&site, path), "forbidden", "{path}");
    }
    for (path, expected) in [("/inner", "a"), ("/detour", "a"), ("/inner-folder/", "sub")] {
        assert_eq!(got(&site, path), expected, "{path}");
    }
    let strict = Site::open(FilesConfig {
        links: false,
        ..config
    })
    .unwrap();
    for path in ["/inner", "/detour", "/inner-folder/", "/up"] {
        assert_eq!(got(&strict, path), "forbidden", "{path}");
    }
    assert_eq!(got(&strict, "/a.txt"), "a");
    assert!(
        site.figures()
            .last_error
            .is_none_or(|error| !error.contains("secret"))
    );
}

/// Failure: a FIFO holds a thread, or a device is read.
#[test]
fn what_is_no_regular_file_is_not_opened() {
    let folder = folder();
    let root = folder.path().join("root");
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), rustix::fs::Mode::RUSR).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    assert!(
        fs::metadata(root.join("fifo"))
            .unwrap()
            .file_type()
            .is_fifo()
    );
    let site = Site::open(site(&folder)).unwrap();
    for path in ["/fifo", "/socket"] {
        assert_eq!(got(&site, path), "forbidden", "{path}");
        assert!(site.tag(path, Accepts::default()).is_none());
    }
    let devices = Site::open(FilesConfig::new("/dev")).unwrap();
    for path in ["/null", "/zero", "/tty"] {
        assert_eq!(got(&devices, path), "forbidden", "{path}");
    }
}

/// Failure: an application of one page gets 404 for its own paths, or its files get its page.
#[test]
fn steps_of_an_application_of_one_page() {
    let folder = folder();
    let steps = |texts: &[&str]| FilesConfig {
        steps: texts.iter().map(|text| text.parse().unwrap()).collect(),
        ..site(&folder)
    };
    let spa = Site::open(steps(&["$uri", "$uri/", "/index.html"])).unwrap();
    for (path, expected) in [
        ("/a.txt", "a"),
        ("/users/7", "home"),
        ("/empty/", "home"),
        ("/sub", "to sub/"),
    ] {
        assert_eq!(got(&spa, path), expected, "{path}");
    }
    let is_fallback = |path: &str| match spa.find(path, Accepts::default()) {
        Opened::File(file) => file.is_fallback,
        other => panic!("{other:?}"),
    };
    assert!(is_fallback("/users/7") && !is_fallback("/") && !is_fallback("/a.txt"));
    // A path that is no file's name gets no page.
    assert_eq!(got(&spa, "/.git/config"), "nothing");
    let clean = Site::open(steps(&["$uri.txt", "=404", "/index.html"])).unwrap();
    assert_eq!(
        (got(&clean, "/a"), got(&clean, "/b")),
        ("a".to_owned(), "nothing".to_owned())
    );
    let with_page = FilesConfig {
        not_found: Some("/a.txt".to_owned()),
        ..site(&folder)
    };
    assert_eq!(got(&Site::open(with_page).unwrap(), "/none"), "page");
}

fn set_modified(path: &Path, seconds: u64) {
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        .unwrap();
}

/// Failure: a client gets an old compressed file, one without a plain file, or in a coding that it
/// does not accept.
#[test]
fn compressed_files_beside_the_plain_one() {
    let folder = folder();
    let at = |name: &str| folder.path().join("root").join(name);
    fs::write(at("sub/deep/x.js.gz"), "gz").unwrap();
    fs::write(at("sub/deep/x.js.br"), "br").unwrap();
    fs::write(at("alone.js.gz"), "gz").unwrap();
    fs::write(at("photo.png"), "png").unwrap();
    fs::write(at("photo.png.gz"), "gz").unwrap();
    let site = Site::open(site(&folder)).unwrap();
    let open = |path: &str, accepts: &str| site.find(path, Accepts::of([accepts.as_bytes()]));
    let tag = |path: &str, accepts: &str| site.tag(path, Accepts::of([accepts.as_bytes()]));
    for (accepts, expected) in [
        ("", "plain"),
        ("gzip", "gz"),
        ("gzip, br", "br"),
        ("br;q=0, gzip", "gz"),
        ("zstd", "plain"),
    ] {
        let opened = open("/sub/deep/x.js", accepts);
        let Opened::File(file) = &opened else {
            panic!()
        };
        assert!(
            file.varies && file.content_type.starts_with("text/javascript"),
            "{accepts}"
        );
        assert_eq!(Some(file.tag), tag("/sub/deep/x.js", accepts), "{accepts}");
        assert_eq!(text(opened), expected, "{accepts}");
    }
    assert_eq!(text(open("/alone.js", "gzip")), "nothing");
    let Opened::File(photo) = open("/photo.png", "gzip") else {
        panic!()
    };
    assert!(photo.coding.is_none() && !photo.varies);
    // The plain file is newer than one of them.
    for (name, seconds) in [
        ("sub/deep/x.js", 2000),
        ("sub/deep/x.js.br", 1999),
        ("sub/deep/x.js.gz", 2000),
    ] {
        set_modified(&at(name), seconds);
    }
    assert_eq!(text(open("/sub/deep/x.js", "gzip, br")), "gz");
    fs::remove_file(at("sub/deep/x.js.gz")).unwrap();
    let Opened::File(plain) = open("/sub/deep/x.js", "gzip, br") else {
        panic!()
    };
    assert!(plain.coding.is_none() && !plain.varies);
}

/// Failure: a changed file, or a root that leads elsewhere now, is not noticed.
#[test]
fn changes_are_seen_at_once() {
    let folder = folder();
    let at = |name: &str| folder.path().join("root").join(name);
    let link = folder.path().join("current");
    symlink("root", &link).unwrap();
    let site = Site::open(FilesConfig::new(&link)).unwrap();
    let tag = || site.tag("/a.txt", Accepts::default());
    let first = tag().unwrap();
    // In place, with the same length and the same time.
    let modified = fs::metadata(at("a.txt")).unwrap().modified().unwrap();
    std::thread::sleep(Duration::from_millis(20));
    fs::write(at("a.txt"), "b").unwrap();
    fs::File::options()
        .write(true)
        .open(at("a.txt"))
        .unwrap()
        .set_modified(modified)
        .unwrap();
    assert_ne!(tag(), Some(first));
    let second = tag();
    fs::write(at("new"), "c").unwrap();
    fs::rename(at("new"), at("a.txt")).unwrap();
    assert_ne!(tag(), second);
    assert_eq!(got(&site, "/a.txt"), "c");
    fs::remove_file(at("a.txt")).unwrap();
    assert_eq!((tag(), got(&site, "/a.txt").as_str()), (None, "nothing"));
    // The root is another release.
    fs::create_dir(folder.path().join("release")).unwrap();
    fs::write(folder.path().join("release/a.txt"), "new").unwrap();
    symlink("release", folder.path().join("next")).unwrap();
    fs::rename(folder.path().join("next"), &link).unwrap();
    let Opened::File(file) = site.find("/a.txt", Accepts::default()) else {
        panic!()
    };
    assert_eq!(Some(file.tag), tag());
    assert_eq!(text(Opened::File(file)), "new");
    // A root that is gone: the former one still serves, and the error is shown.
    fs::remove_file(&link).unwrap();
    assert_eq!(got(&site, "/a.txt"), "new");
    assert!(
        site.figures()
            .last_error
            .is_some_and(|error| error.contains("current"))
    );
}

/// Failure: a renaming anywhere in the system makes a request fail (`openat2(2)`, EAGAIN).
#[test]
fn renamings_make_requests_fail() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    symlink("sub/deep/../../a.txt", at("root/detour")).unwrap();
    let site = Site::open(site(&folder)).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_done = &is_done;
        let (one, other) = (at("secret"), at("other"));
        scope.spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                fs::rename(&one, &other).unwrap();
                fs::rename(&other, &one).unwrap();
            }
        });
        let found: Vec<String> = (0..3000).map(|_| got(&site, "/detour")).collect();
        is_done.store(true, Ordering::Relaxed);
        assert!(found.iter().all(|text| text == "a"), "{:?}", site.figures());
    });
}

/// Failure: a root that cannot be served is found by its first client.
#[test]
fn roots_that_are_none() {
    let folder = folder();
    let refused = |path: &str| {
        let opened = Site::open(FilesConfig::new(folder.path().join(path)));
        opened
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(
        refused("none").contains("does not exist: create it"),
        "{}",
        refused("none")
    );
    assert!(
        refused("root/a.txt").contains("it is no folder"),
        "{}",
        refused("root/a.txt")
    );
    assert_eq!(refused("root"), "");
}

/// Failure: an unreadable file is a missing one, or hides the readable plain one.
#[test]
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn unreadable_files() {
    let folder = folder();
    let at = |name: &str| folder.path().join("root").join(name);
    fs::write(at("a.txt.gz"), "gz").unwrap();
    for name in ["a.txt.gz", "index.html"] {
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o0)).unwrap();
    }
    if fs::File::open(at("index.html")).is_ok() {
        return eprintln!("skipped: root reads everything");
    }
    let site = Site::open(site(&folder)).unwrap();
    assert_eq!(got(&site, "/"), "forbidden");
    assert_eq!(text(site.find("/a.txt", Accepts::of([&b"gzip"[..]]))), "a");
}
