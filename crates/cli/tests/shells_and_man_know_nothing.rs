//! Detects a package whose shells complete nothing, or whose manual misses a command, and pages of
//! `docs/reference` that say something else than the program. The real program, and a real bash.

use std::process::{Command, Output};
use tempfile::TempDir;

fn larder(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_larder"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text_of(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the commands that `--help` lists.
fn commands() -> Vec<String> {
    let help = text_of(&larder(&["--help"]));
    let list = help.split("Commands:").nth(1).unwrap();
    let list = list.split("Options:").next().unwrap();
    let indented = list.lines().filter_map(|line| line.strip_prefix("  "));
    let named = indented.filter(|line| !line.starts_with(' '));
    named
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Failure: a command has no page, or a page says nothing of an option.
#[test]
fn a_command_has_no_page() {
    let directory = TempDir::new().unwrap();
    let pages = directory.path().join("man/of/larder");
    std::fs::create_dir_all(&pages).unwrap();
    // Another program's page, in Latin-1.
    let foreign = b"caf\xe9\n.SH EXTRA\n";
    std::fs::write(pages.join("other.1"), foreign).unwrap();
    text_of(&larder(&["man", pages.to_str().unwrap()]));
    assert_eq!(std::fs::read(pages.join("other.1")).unwrap(), foreign);
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    for command in &commands {
        let page = std::fs::read_to_string(pages.join(format!("larder-{command}.1"))).unwrap();
        assert!(page.contains(".SH NAME"), "{command}");
    }
    let page = |name: &str| std::fs::read_to_string(pages.join(name)).unwrap();
    assert!(page("larder.1").contains("larder\\-replay(1)"));
    assert!(page("larder-run.1").contains("\\-\\-check"));
    assert!(page("larder-curve.1").contains(".SH EXAMPLES\nlarder curve "));
    assert!(!page("larder-curve.1").contains(".SH EXTRA"));
    // The synopsis has the values of options.
    let synopsis = page("larder-replay.1").replace('\\', "");
    assert!(
        synopsis.contains("--policy <SPEC,…> --size <SIZE,…> <TRACE>"),
        "{synopsis}"
    );
    assert!(page("larder-ctl-route-add.1").contains("larder ctl route add\\fR [OPTIONS] <PREFIX>"));
    let names: Vec<_> = std::fs::read_dir(&pages)
        .unwrap()
        .map(|page| page.unwrap().file_name())
        .collect();
    assert!(
        !names
            .iter()
            .any(|name| name.to_string_lossy().contains("-help")),
        "{names:?}"
    );
    assert!(page("larder-ctl-route-add.1").contains(".SH NAME"));
}

/// Failure: the directory cannot be made, and the message does not name it.
#[test]
fn a_directory_of_pages_is_a_file() {
    let failed = larder(&["man", "/dev/null/pages"]);
    let message = String::from_utf8(failed.stderr).unwrap();
    assert!(
        !failed.status.success() && message.contains("/dev/null/pages"),
        "{message}"
    );
}

/// Failure: bash completes no command, or no option of one.
#[test]
fn bash_completes_nothing() {
    let directory = TempDir::new().unwrap();
    let script = text_of(&larder(&["completions", "bash"]));
    let completed = |words: &[&str]| {
        let last = words.len() - 1;
        let ask = format!(
            "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}; _larder larder '{}' '{}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words[last],
            words[last - 1]
        );
        // It is too long for an argument.
        let file = directory.path().join("ask");
        std::fs::write(&file, ask).unwrap();
        text_of(&Command::new("bash").arg(file).output().unwrap())
    };
    assert_eq!(completed(&["larder", "cur"]).trim(), "curve");
    assert!(completed(&["larder", "run", "--che"]).contains("--check"));
    assert!(text_of(&larder(&["completions", "zsh"])).contains("hobhis"));
    // Names, and not the files of the folder.
    let names = completed(&["larder", "replay", "--policy", "w-tiny"]);
    assert_eq!(names.trim(), "w-tinylfu");
    let names = completed(&["larder", "replay", "--format", "oracle"]);
    assert!(names.contains("oracle-general"), "{names}");
    for shell in ["zsh", "fish"] {
        let script = text_of(&larder(&["completions", shell]));
        for name in ["w-tinylfu", "oracle-general"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    for shell in ["zsh", "fish"] {
        let script = text_of(&larder(&["completions", shell]));
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
}

/// Failure: a page of the reference says something else than the program.
#[test]
fn a_page_of_the_reference_is_out_of_date() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference");
    let mut old = Vec::new();
    for page in ["command-line", "policies", "strategies", "access-log"] {
        let made = text_of(&larder(&["reference", page]));
        let kept = std::fs::read_to_string(format!("{folder}/{page}.md"));
        if kept.ok().as_ref() != Some(&made) {
            old.push(format!(
                "larder reference {page} > docs/reference/{page}.md"
            ));
        }
    }
    assert!(old.is_empty(), "run: {}", old.join("\n"));
}
