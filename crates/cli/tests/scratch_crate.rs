//! Detects that a crate outside the workspace cannot build a `larder` with parts of its own, or
//! that a command of that program does not know them. The crates are the example `custom_larder`
//! and the template of a policy (`templates/policy`).

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Ends with the test.
struct Node(Child);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the workspace's tables of profiles.
fn profiles(workspace: &str) -> String {
    let mut is_profile = false;
    workspace
        .lines()
        .filter(|line| {
            if line.starts_with('[') {
                is_profile = line.starts_with("[profile.");
            }
            is_profile
        })
        .map(|line| format!("{line}\n"))
        .collect()
}

/// Builds both crates, which are no members of the workspace, and returns their programs. They
/// share the workspace's build directory, lock file and profiles, so most dependencies are built
/// already: with other profiles, cargo would build all of them again.
fn build() -> [PathBuf; 2] {
    // Always the same place: cargo builds all crates anew for a crate in another one.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("custom-larder");
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let dependency = |name: &str| format!("larder-{name} = {{ path = {:?} }}\n", crates.join(name));
    let dependencies: String = ["cli", "forwarder", "policy", "replay", "units"]
        .map(dependency)
        .concat();
    fs::create_dir_all(directory.join("src")).unwrap();
    let manifest = "[package]\nname = \"custom-larder\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n\
                    [workspace]\nmembers = [\"my-policy\"]\n";
    let workspace = fs::read_to_string(crates.parent().unwrap().join("Cargo.toml")).unwrap();
    let profiles = profiles(&workspace);
    fs::write(
        directory.join("Cargo.toml"),
        format!("{manifest}\n[dependencies]\n{dependencies}\n{profiles}"),
    )
    .unwrap();
    fs::copy(
        crates.parent().unwrap().join("Cargo.lock"),
        directory.join("Cargo.lock"),
    )
    .unwrap();
    fs::write(
        directory.join("src/main.rs"),
        include_str!("../examples/custom_larder.rs"),
    )
    .unwrap();
    generate(crates.parent().unwrap(), &directory.join("my-policy"));
    // target/debug/larder
    let target = Path::new(env!("CARGO_BIN_EXE_larder"))
        .parent()
        .unwrap()
        .parent()
        .unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    let cargo = cargo
        .args([
            "build",
            "--workspace",
            "--quiet",
            "--offline",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(&directory);
    let output = cargo.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    ["custom-larder", "my-policy"].map(|name| target.join("debug").join(name))
}

/// Makes a crate of the template as cargo-generate does: it replaces the placeholders in all files
/// and their names.
fn generate(root: &Path, directory: &Path) {
    let values = [
        ("project-name", "my-policy"),
        ("crate_name", "my_policy"),
        ("policy", "my-clock"),
        ("larder", root.to_str().unwrap()),
    ];
    let replace = |text: &str| {
        let replaced = values.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("{{{{{name}}}}}"), value)
        });
        assert!(
            !replaced.contains("{{"),
            "a placeholder that cargo-generate does not know: {replaced}"
        );
        replaced
    };
    let template = root.join("templates/policy");
    let mut folders = vec![template.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("cargo-generate.toml") {
                let made = directory.join(replace(
                    path.strip_prefix(&template).unwrap().to_str().unwrap(),
                ));
                fs::create_dir_all(made.parent().unwrap()).unwrap();
                fs::write(made, replace(&fs::read_to_string(path).unwrap())).unwrap();
            }
        }
    }
}

/// Runs a command that must succeed, and returns its output.
fn output(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {problem}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn parts_of_another_crate_are_unknown_to_its_larder() {
    let directory = tempfile::tempdir().unwrap();
    let [larder, policy] = build();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    assert!(
        output(&larder, &["policies", "lifo"]).contains("evicts the object that was stored last")
    );

    let trace = path("trace.csv");
    let requests: String = [1, 2, 3, 1, 2, 3]
        .map(|id| format!("{id},{id},10\n"))
        .concat();
    fs::write(&trace, requests).unwrap();
    let replay = [
        "replay", &trace, "--policy", "lifo", "--size", "20", "--json",
    ];
    let result = output(&larder, &replay);
    // Objects 1 and 2 are stored; 3 replaces 2. Then 1 hits, 2 replaces 3, and 3 replaces 2.
    assert!(result.contains("\"hits\":1"), "{result}");

    let trace_of = |ids: &[u64]| {
        ids.iter()
            .map(|id| format!("{id},{id},10\n"))
            .collect::<String>()
    };
    fs::write(&trace, trace_of(&[1, 2, 1, 3, 1])).unwrap();
    let result = output(
        &policy,
        &[
            "replay",
            &trace,
            "--policy",
            "my-clock,filter(theta=1)+my-clock",
            "-s",
            "20",
            "--json",
        ],
    );
    assert_eq!(result.matches("\"hits\":2").count(), 2, "{result}");
    assert!(output(&policy, &["policies", "my-clock"]).contains("was not hit since"));

    let trace = path("trace.ids");
    fs::write(&trace, "1\n2\n1\n").unwrap();
    let result = output(
        &larder,
        &[
            "replay", &trace, "--policy", "lru", "--size", "20", "--json",
        ],
    );
    assert!(
        result.contains("\"requests\":3") && result.contains("\"hits\":1"),
        "{result}"
    );
    let result = output(
        &larder,
        &["trace", "info", &trace, "--format", "ids", "--json"],
    );
    assert!(result.contains("\"format\":\"ids\""), "{result}");
    let help = output(&larder, &["replay", "--help"]);
    assert!(
        help.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .contains("meta-cdn, parquet or ids"),
        "{help}"
    );
    let unknown = Command::new(&larder)
        .args(["trace", "info", &trace, "--format", "none"])
        .output()
        .unwrap();
    let problem = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        problem.contains("`none`, one of columns,") && problem.contains("parquet, ids"),
        "{problem}"
    );

    let (config, socket) = (path("larder.toml"), path("larder.sock"));
    let text = format!(
        "[ndn]\nunix = {socket:?}\ntcp = \"\"\nudp = \"\"\nwebsocket = \"\"\npolicy = \"lifo\"\n\n\
         [[ndn.strategy]]\nprefix = \"/a\"\nstrategy = \"costliest\"\n\n[http]\nlisten = \"\"\n\n[admin]\nlisten = \"\"\n"
    );
    fs::write(&config, text).unwrap();
    output(&larder, &["run", "--check", &config]);
    let mut command = Command::new(&larder);
    let node = command
        .args(["run", &config])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut node = Node(node);
    let greeting = BufReader::new(node.0.stdout.take().unwrap()).lines().next();
    assert!(greeting.is_some(), "the node did not start");
    let listed = output(&larder, &["ctl", "--config", &config, "strategy", "list"]);
    assert!(
        listed.contains("/localhost/nfd/strategy/costliest/v=1"),
        "{listed}"
    );
}
