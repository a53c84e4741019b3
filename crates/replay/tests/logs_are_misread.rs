//! Access logs and traces in the shapes that people have: each file of `data/logs` gives what its
//! README says.

use larder_replay::{Access, BadLines, ReadOptions, Trace, TraceReport};
use larder_units::Ratio;
use std::path::{Path, PathBuf};

/// The sizes of the ten requests.
const SIZES: [u64; 10] = [
    5000, 1200, 30_000, 900_000, 1200, 5000, 30_000, 5000, 7000, 1200,
];

/// Which object each of the ten requests asks for, in the order of their first requests.
const OBJECTS: [usize; 10] = [0, 1, 2, 3, 1, 0, 2, 0, 4, 1];

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/logs")
        .join(name)
}

fn lenient() -> ReadOptions {
    ReadOptions {
        bad_lines: Some(BadLines {
            most: Ratio::new(0.01).expect("a share"),
        }),
        ..ReadOptions::default()
    }
}

/// What is read of a file.
struct Read {
    requests: Vec<Access>,
    format: &'static str,
    report: TraceReport,
}

impl Read {
    fn of(path: &Path, options: &ReadOptions) -> Read {
        let mut trace = Trace::open_with(path, options).unwrap_or_else(|error| panic!("{error}"));
        let requests: Result<Vec<Access>, _> = trace.by_ref().collect();
        Read {
            requests: requests.unwrap_or_else(|error| panic!("{error}")),
            format: trace.format().name(),
            report: trace.report(),
        }
    }

    /// Numbers the objects by their first requests.
    fn objects(&self) -> Vec<usize> {
        numbered(&self.requests)
    }

    fn object_count(&self) -> usize {
        self.objects().into_iter().max().map_or(0, |most| most + 1)
    }

    fn sizes(&self) -> Vec<u64> {
        self.requests.iter().map(|access| access.size).collect()
    }

    fn left_out(&self) -> u64 {
        self.report
            .reader
            .left_out
            .iter()
            .map(|(_, lines)| lines)
            .sum()
    }
}

fn numbered(requests: &[Access]) -> Vec<usize> {
    let mut ids: Vec<u64> = Vec::new();
    let mut objects = Vec::new();
    for access in requests {
        let place = ids.iter().position(|id| *id == access.id);
        objects.push(place.unwrap_or(ids.len()));
        if place.is_none() {
            ids.push(access.id);
        }
    }
    objects
}

fn assert_ten(name: &str, requests: &[Access], seconds_apart: f64) {
    assert_eq!(numbered(requests), OBJECTS, "{name}");
    let sizes: Vec<u64> = requests.iter().map(|access| access.size).collect();
    assert_eq!(sizes, SIZES, "{name}");
    for (place, pair) in requests.windows(2).enumerate() {
        let apart = pair[1].now.since(pair[0].now).as_secs_f64();
        assert!(
            (apart - seconds_apart).abs() < 0.002,
            "{name}: {apart} s after request {place}"
        );
    }
}

/// Failure: a log in a known format gives other requests than were made.
#[test]
fn a_log_gives_other_requests() {
    for name in [
        "00_combined.log",
        "01_crlf.log",
        "02_bom.log",
        "25_zone_change.log",
        "26_time_backwards.log",
        "32_mac_cr.log",
        "34_rot.log.1.gz",
        "41_logs.zip",
        "46_syslog_prefix.log",
        "47_k8s_docker.json.log",
        "49_npm.log",
        "50_haproxy_httplog.log",
        "51_haproxy_clf.log",
        "53_traefik.json",
        "54_envoy.log",
        "56_cloudfront.log",
        "57_iis.log",
        "58_alb.log",
        "60_gcp_lb.json",
        "61_cloudflare.json",
        "63_nginx_ok.json",
        "65_nginx_time_local.json",
        "66_nginx_both_sizes.json",
        "67_nginx_bytes_sent_at_timestamp.json",
        "74_json_nested_ecs.json",
        "77_json_msec_ms.json",
        "78_caddy.json",
        "82_caddy_ts_iso.json",
        "84_squid.log",
    ] {
        let read = Read::of(&file(name), &lenient());
        assert_eq!(read.format, "web-log", "{name}");
        // Their times are not one second apart, so they are in another order.
        if name.starts_with("25") || name.starts_with("26") {
            assert_eq!(read.requests.len(), 10, "{name}");
            assert!(
                read.requests.is_sorted_by_key(|access| access.now),
                "{name}"
            );
            continue;
        }
        assert_ten(name, &read.requests, 1.0);
        assert_eq!(read.report.bad_lines(), 0, "{name}");
    }
}

/// Failure: a trace with a header, or with times in another unit, gives other requests.
#[test]
fn a_table_gives_other_requests() {
    for (name, apart) in [
        ("85_wikimedia.tsv", 1.0),
        ("93_lcs_header.csv", 0.1),
        ("97_csv_quoted.csv", 1.0),
        ("98_semicolon.csv", 1.0),
        ("99_csv_iso_time.csv", 1.0),
        ("99c_csv_ms_time.csv", 1.0),
    ] {
        let read = Read::of(&file(name), &lenient());
        assert_eq!(read.format, "columns", "{name}");
        assert_ten(name, &read.requests, apart);
    }
}

/// Failure: a bad line ends the work, or is not counted, or a good one is left out.
#[test]
fn one_bad_line_ends_the_work() {
    for (name, skipped, left_out) in [
        ("04_truncated_last.log", 1, 0),
        ("05_truncated_mid.log", 1, 0),
        ("07_408_dash.log", 0, 1),
        ("09_tls_garbage.log", 0, 1),
        ("27_status_dash.log", 1, 0),
        ("28_negative_size.log", 1, 0),
        ("43_error_lines.log", 0, 1),
        ("44_first_line_bad.log", 0, 1),
        ("80_caddy_mid_nonrequest.json", 0, 1),
    ] {
        let read = Read::of(&file(name), &lenient());
        assert_ten(name, &read.requests, 1.0);
        let report = &read.report;
        assert_eq!(
            (report.bad_lines(), read.left_out()),
            (skipped, left_out),
            "{name}: {report:?}"
        );
        assert_eq!(report.first_skipped.len() as u64, skipped, "{name}");
    }
    let read = Read::of(&file("69_nginx_empty_status.json"), &lenient());
    assert_eq!((read.requests.len(), read.report.bad_lines()), (6, 1));
    for name in ["18b_user_bracket.log", "28b_plus_size_haproxy.log"] {
        let read = Read::of(&file(name), &lenient());
        assert_eq!(
            (read.requests.len(), read.object_count()),
            (11, 5),
            "{name}"
        );
        assert_eq!(read.report.bad_lines(), 0, "{name}");
    }
}

/// Failure: a damaged file gives nothing, or does not say that it is damaged.
#[test]
fn a_cut_file_gives_nothing() {
    for (name, requests) in [("38_trunc.log.gz", 1), ("39b_gz_trailing_zeros.log.gz", 10)] {
        let read = Read::of(&file(name), &lenient());
        assert!(read.requests.len() >= requests, "{name}");
        assert!(
            read.report
                .reader
                .notes
                .iter()
                .any(|note| note.contains("gzip data")),
            "{name}: {:?}",
            read.report
        );
        let strict =
            Trace::open(&file(name), None).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        assert!(strict.is_err(), "{name}");
    }
}

/// Failure: two objects are one, or one is two; or a request counts that a cache never sees.
#[test]
fn another_object_is_asked_for() {
    for (name, requests, objects) in [
        ("12_url_space.log", 12, 7),
        ("14_url_quote_raw.log", 11, 6),
        ("16_latin1.log", 11, 6),
        ("19_vhost_prefix.log", 10, 2),
        ("20_host_in_url_varnish.log", 10, 2),
        ("21_post_200.log", 10, 5),
        ("21b_options_head_put_delete.log", 11, 6),
        ("22_206.log", 15, 6),
        ("22b_only_206.log", 10, 3),
        ("23_301_404_410.log", 18, 6),
        ("89_alibaba_block.csv", 6, 5),
        ("90_tencent_cbs.csv", 5, 4),
    ] {
        let read = Read::of(&file(name), &lenient());
        assert_eq!(
            (read.requests.len(), read.object_count()),
            (requests, objects),
            "{name}"
        );
    }
    let tencent = Read::of(&file("90_tencent_cbs.csv"), &lenient());
    assert_eq!(tencent.sizes(), [8 * 512; 5]);
    let mut options = lenient();
    options.log.writes = true;
    let alibaba = Read::of(&file("89_alibaba_block.csv"), &options);
    assert_eq!(alibaba.requests.len(), 10);
}

/// Failure: a format is read, but its report does not name it.
#[test]
fn a_file_is_not_described() {
    for entry in std::fs::read_dir(file("")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "md") {
            let read = Read::of(&path, &lenient());
            let how = read.report.reader.how.concat();
            assert!(!how.is_empty(), "{}", path.display());
        }
    }
}
