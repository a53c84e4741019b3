//! `larder doctor`: says what is wrong on this machine, and what to do.

use crate::config_file::ConfigFile;
use crate::failure::Failure;
use crate::output::{line, within_a_line};
use clap::Args;
use larder_node::{ConfigSources, Finding, Level, examine};
use serde_json::{Value, json};

/// Say what is wrong on this machine, and what to do
///
/// Looks at the configuration as `larder run --check` does, and then at what it needs of the
/// machine: ports, open files, the kernel, the clock, disks, certificates, permissions and origins.
/// It changes nothing, before a start or while the node runs. The exit status is 1 with an error.
///
/// Run it as the user that starts the node, and as root to see which programs have a port.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    #[command(flatten)]
    file: ConfigFile,

    /// Print JSON instead of lines
    #[arg(long)]
    json: bool,
}

/// Prints a line for each finding.
pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let findings = examine(&ConfigSources::of_process(args.file.path()));
    let [errors, warnings] = [Level::Error, Level::Warning].map(|level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    });
    if args.json {
        line!("{}", page(&findings, errors, warnings));
    } else {
        for finding in &findings {
            line!("{}", text(finding));
        }
        line!("{}", summary(errors, warnings));
    }
    if errors > 0 {
        // The findings have said it.
        return Err(Failure::runtime(String::new()));
    }
    Ok(())
}

/// Returns one line: level, subject, place, and what was found with its remedy.
fn text(finding: &Finding) -> String {
    let Finding {
        level,
        topic,
        place,
        text,
        remedy,
    } = finding;
    let remedy = if remedy.is_empty() {
        String::new()
    } else {
        format!("; {remedy}")
    };
    let line = format!("{level:<8} {topic:<14} {place}: {text}{remedy}");
    within_a_line(&line).into_owned()
}

fn summary(errors: usize, warnings: usize) -> String {
    let count = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    };
    format!("{}, {}", count(errors, "error"), count(warnings, "warning"))
}

fn page(findings: &[Finding], errors: usize, warnings: usize) -> Value {
    let finding = |finding: &Finding| {
        json!({
            "level": finding.level.to_string(),
            "topic": finding.topic.to_string(),
            "place": finding.place,
            "text": finding.text,
            "remedy": finding.remedy,
        })
    };
    let findings: Vec<Value> = findings.iter().map(finding).collect();
    json!({ "errors": errors, "warnings": warnings, "findings": findings })
}
