//! The formats, their names, and how the format of a file is detected.

use super::log_line::LogLine;
use super::twitter::Twitter;
use super::{arc, numbers};
use std::str::FromStr;

/// The format of a trace, after decompression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines of time, object and size, with commas, tabs or blanks between: libCacheSim's CSV,
    /// webcachesim's text, Tencent's block traces. A first line with `#` or with words names the
    /// columns, if they stand otherwise.
    Columns,
    /// A web server's log, common or combined, or with tabs and a first line that names `url`,
    /// `response` and `bytes`. Answers 200 and 304 count.
    WebLog,
    /// The ARC paper's disk traces: lines of first block, number of blocks, a flag and the
    /// request's number; 512 bytes a block.
    Arc,
    /// libCacheSim's binary: 24 bytes a request, little-endian u32 time in seconds, u64 object, u32
    /// size, i64 next request.
    OracleGeneral,
    /// Twitter's cache traces: time, key, key size, value size, client, operation and time to live,
    /// with commas between. `get` and `gets` count.
    Twitter,
    /// Big-endian 32-bit object numbers and nothing else (web07, web12); every object has one byte.
    Numbers,
}

impl Format {
    /// Every format by its name.
    pub const NAMES: [(&'static str, Format); 6] = [
        ("columns", Format::Columns),
        ("web-log", Format::WebLog),
        ("arc", Format::Arc),
        ("oracle-general", Format::OracleGeneral),
        ("twitter", Format::Twitter),
        ("numbers", Format::Numbers),
    ];

    /// The format by the file's name and the first bytes of its content.
    pub(super) fn tell(name: &str, start: &[u8]) -> Option<Format> {
        let name = name.to_ascii_lowercase();
        let name = [".zst", ".xz", ".gz"].iter().find_map(|compressed| name.strip_suffix(compressed)).unwrap_or(&name);
        if name.ends_with(".oraclegeneral") || name.ends_with(".oraclegeneral.bin") {
            return Some(Format::OracleGeneral);
        }
        if name.ends_with(".lis") {
            return Some(Format::Arc);
        }
        let is_text = start.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..));
        if !is_text {
            let is_numbers = name.ends_with(".trace").then_some(Format::Numbers);
            return if numbers::is_oracle_general(start) { Some(Format::OracleGeneral) } else { is_numbers };
        }
        let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii_end();
        let has_field = |field: &[u8]| line.split(|byte| *byte == b'\t').any(|f| f.trim_ascii() == field);
        Some(match line {
            _ if has_field(b"url") && has_field(b"response") || LogLine::is_line(line) => Format::WebLog,
            _ if Twitter::is_line(line) => Format::Twitter,
            _ if arc::is_arc(start) => Format::Arc,
            _ => Format::Columns,
        })
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        let found = Format::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, format)| *format).ok_or_else(|| {
            format!("unknown trace format `{text}`, one of {}", Format::NAMES.map(|(name, _)| name).join(", "))
        })
    }
}
