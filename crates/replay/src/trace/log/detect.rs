//! The detection of a log's format: the form that most of the first lines have.

use super::header::Header;
use super::json::Members;
use super::learned::Learned;
use super::names::{Role, SHOWN, normal};
use super::notation::{LogFormat, Shape};
use super::pattern::{LastTime, Pattern};
use super::presets::PRESETS;
use super::record::{LogKind, Record};
use super::wrapped::{WRAPPERS, Wrapper};
use crate::trace::lines::BYTE_ORDER_MARK;
use crate::trace::options::LogOptions;
use std::borrow::Cow;
use std::sync::Arc;

/// Lines that are looked at. A log may begin with lines of another kind.
const MAX_LINES: usize = 300;

/// Members of JSON lines that only one program writes, and this program.
const WRITERS: [(&str, &str); 11] = [
    ("downstreamstatus", "Traefik"),
    ("request.uri", "Caddy"),
    ("edgeresponsestatus", "Cloudflare Logpush"),
    ("httprequest.status", "Google Cloud"),
    ("reqtimesec", "Akamai DataStream"),
    ("http.response.status_code", "Elastic Common Schema"),
    ("properties.httpstatuscode", "Azure"),
    ("response_code", "Envoy"),
    ("fastly_is_edge", "Fastly"),
    ("body_bytes_sent", "nginx's names"),
    ("bytes_sent", "nginx's names"),
];

/// How the lines of a log are read.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub wrapper: Option<Wrapper>,
    pub kind: Kind,
    name: String,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Text {
        pattern: Arc<Pattern>,
        learned: Learned,
    },
    Json(Members),
    /// `None` until a line names the columns.
    Header(Option<Header>),
}

/// A plan, and how many of the first lines it reads.
struct Candidate {
    plan: Plan,
    lines: usize,
}

impl Plan {
    /// Returns the plan for a log that begins with these bytes; `None` if they are no log. A format
    /// of the options is the only one that is tried.
    pub fn of(start: &[u8], options: &LogOptions) -> Option<Plan> {
        let lines = first_lines(start);
        let mut best: Option<Candidate> = None;
        let mut consider = |candidate: Option<Candidate>| {
            if let Some(candidate) = candidate
                && best
                    .as_ref()
                    .is_none_or(|best| candidate.lines > best.lines)
            {
                best = Some(candidate);
            }
        };
        let given: Option<LogFormat> = options.format.as_deref().and_then(|text| text.parse().ok());
        let forced = given.as_ref();
        let tries = |shape: &Shape| forced.is_none_or(|forced| forced.shape == *shape);
        if tries(&Shape::Header) {
            consider(of_header(&lines));
        }
        if tries(&Shape::Json) {
            consider(of_json(&lines, None));
        }
        for wrapper in WRAPPERS.into_iter().map(Some).chain([None]) {
            let inner: Vec<Cow<'_, [u8]>> = match wrapper {
                None => lines.iter().map(|line| Cow::Borrowed(*line)).collect(),
                Some(wrapper) => lines
                    .iter()
                    .filter_map(|line| wrapper.inner(line))
                    .collect(),
            };
            if inner.is_empty() {
                continue;
            }
            let inner: Vec<&[u8]> = inner.iter().map(|line| &**line).collect();
            if wrapper.is_some() && tries(&Shape::Json) {
                consider(of_json(&inner, wrapper));
            }
            match forced {
                Some(format) => consider(of_text(&inner, wrapper, format, options)),
                None => {
                    for preset in PRESETS {
                        consider(of_text(&inner, wrapper, &LogFormat::of(preset), options));
                    }
                }
            }
        }
        best.map(|best| best.plan).or_else(|| Plan::unseen(forced?))
    }

    /// Returns the plan of a format that no line of the start has.
    fn unseen(format: &LogFormat) -> Option<Plan> {
        let kind = match &format.shape {
            Shape::Text(pattern) => Kind::Text {
                pattern: pattern.clone(),
                learned: Learned::default(),
            },
            Shape::Json => return None,
            Shape::Header => Kind::Header(None),
        };
        Some(Plan {
            wrapper: None,
            kind,
            name: format.name.clone(),
        })
    }

    /// Returns what is the same for all lines.
    pub fn log_kind(&self) -> LogKind {
        let is_size = |role: Role| matches!(role, Role::Body | Role::Sent | Role::ObjectSize);
        LogKind {
            has_sizes: self.names().iter().any(|(role, _)| is_size(*role)),
            is_of_archive: match &self.kind {
                Kind::Header(Some(header)) => header.is_of_archive,
                _ => false,
            },
        }
    }

    fn names(&self) -> &[(Role, String)] {
        match &self.kind {
            Kind::Text { pattern, .. } => pattern.names(),
            Kind::Json(members) => &members.names,
            Kind::Header(Some(header)) => &header.names,
            Kind::Header(None) => &[],
        }
    }

    /// Describes the format and the fields that are used, one line each.
    pub fn shown(&self) -> Vec<String> {
        let mut name = self.name.clone();
        if let Some(wrapper) = self.wrapper {
            name = format!("{name}, {}", wrapper.name());
        }
        let mut fields: Vec<String> = Vec::new();
        for (role, name) in self.names() {
            if let Some((_, shown)) = SHOWN.iter().find(|(known, _)| known == role) {
                fields.push(format!("{shown} from `{name}`"));
            }
        }
        if let Kind::Text { learned, .. } = &self.kind {
            fields.extend(learned.shown());
        }
        vec![name, fields.join(", ")]
    }
}

/// Returns the first lines that are not blank. The last one may be cut, so it counts only alone.
fn first_lines(start: &[u8]) -> Vec<&[u8]> {
    let start = start.strip_prefix(BYTE_ORDER_MARK).unwrap_or(start);
    let end = if start.contains(&b'\n') { b'\n' } else { b'\r' };
    let mut lines: Vec<&[u8]> = start
        .split(|byte| *byte == end)
        .map(|line| line.trim_ascii_end())
        .map(|line| &line[line.iter().take_while(|byte| **byte == 0).count()..])
        .filter(|line| !line.is_empty())
        .take(MAX_LINES + 1)
        .collect();
    if lines.len() > 1 && !start.ends_with(&[end]) {
        lines.pop();
    }
    lines
}

fn of_header(lines: &[&[u8]]) -> Option<Candidate> {
    let named = lines.iter().position(|line| line.starts_with(b"#Fields:"));
    let place = named.unwrap_or(0);
    let header = Header::of(lines.get(place)?)?;
    // A header decides without a line that follows it.
    let read = lines[place + 1..].iter().filter(|line| {
        let mut record = Record::default();
        header.read(line, &mut record) && record.has_url()
    });
    let lines = 1 + read.count();
    let name = if named.is_some() {
        "columns named by `#Fields:`"
    } else {
        "columns named by the first line"
    };
    Some(Candidate {
        plan: Plan {
            wrapper: None,
            kind: Kind::Header(Some(header)),
            name: name.to_owned(),
        },
        lines,
    })
}

fn of_json(lines: &[&[u8]], wrapper: Option<Wrapper>) -> Option<Candidate> {
    let objects = lines
        .iter()
        .copied()
        .filter(|line| matches!(line.trim_ascii_start(), [b'{', ..] | [b'[', b'{', ..]));
    let members = Members::learn(objects.clone())?;
    let read = objects.filter(|line| {
        let (mut scratch, mut record) = (Vec::new(), Record::default());
        members.read(line, &mut scratch, &mut record) && record.has_url()
    });
    let lines = read.count();
    let names: Vec<String> = members.names.iter().map(|(_, name)| normal(name)).collect();
    let writer = WRITERS.iter().find(|(known, _)| {
        names
            .iter()
            .any(|name| name == known || name.ends_with(&format!(".{known}")))
    });
    let name = match writer {
        Some((_, writer)) => format!("JSON, {writer}"),
        None => "JSON".to_owned(),
    };
    (lines > 0).then_some(Candidate {
        plan: Plan {
            wrapper,
            kind: Kind::Json(members),
            name,
        },
        lines,
    })
}

fn of_text(
    lines: &[&[u8]],
    wrapper: Option<Wrapper>,
    format: &LogFormat,
    options: &LogOptions,
) -> Option<Candidate> {
    let Shape::Text(pattern) = &format.shape else {
        return None;
    };
    let mut last_time = LastTime::default();
    let records: Vec<Record<'_>> = lines
        .iter()
        .filter_map(|line| {
            let mut record = Record::default();
            let fits = pattern.read(line, options.time_unit, &mut last_time, &mut record)
                && record.has_url();
            fits.then_some(record)
        })
        .collect();
    if records.is_empty() {
        return None;
    }
    let learned = Learned::of(&records, pattern.has(Role::Host));
    Some(Candidate {
        lines: records.len(),
        plan: Plan {
            wrapper,
            kind: Kind::Text {
                pattern: pattern.clone(),
                learned,
            },
            name: format.name.clone(),
        },
    })
}
