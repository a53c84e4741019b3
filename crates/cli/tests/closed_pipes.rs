//! Failure: a command fails because its reader stops early. Uses the real program.

use std::io::Read;
use std::process::{Command, Stdio};

#[test]
fn a_trace_that_nobody_reads_to_its_end_is_a_failure() {
    for format in ["csv", "oracle-general"] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_larder"))
            .args([
                "trace", "generate", "web", "-n", "60000", "--to", format, "-o", "-",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdout
            .take()
            .unwrap()
            .read_exact(&mut [0; 10])
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (
                output.status.code(),
                String::from_utf8(output.stderr).unwrap()
            ),
            (Some(0), String::new()),
            "{format}"
        );
    }
}

/// Failure: a trace for standard output needs a folder that can be written. Nobody may create a
/// file in this one.
#[test]
fn a_trace_needs_the_current_folder() {
    let mut trace = Vec::new();
    for format in [
        "csv",
        "json-lines",
        "numbers",
        "text",
        "oracle-general",
        "parquet",
    ] {
        let mut generate = Command::new(env!("CARGO_BIN_EXE_larder"));
        generate
            .args([
                "trace", "generate", "web", "-n", "100", "--to", format, "-o", "-",
            ])
            .current_dir("/proc");
        let output = generate.output().unwrap();
        assert!(
            output.status.success(),
            "{format}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        trace = output.stdout;
    }
    let file = tempfile::NamedTempFile::with_suffix(".parquet").unwrap();
    std::fs::write(file.path(), trace).unwrap();
    let mut convert = Command::new(env!("CARGO_BIN_EXE_larder"));
    convert
        .args(["trace", "convert"])
        .arg(file.path())
        .args(["-", "--to", "oracle-general"]);
    let output = convert.current_dir("/proc").output().unwrap();
    assert!(
        output.status.success() && output.stdout.len() == 2400,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn a_full_disk_is_none() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let Ok(full) = full else { return };
    let output = Command::new(env!("CARGO_BIN_EXE_larder"))
        .args([
            "trace", "generate", "web", "-n", "60000", "--to", "csv", "-o", "-",
        ])
        .stdout(full)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(
        said,
        "larder: cannot write standard output: No space left on device\n"
    );
}
