//! The grammar: what is printed reads back, nothing panics, and errors name the place, the thing
//! and a suggestion.

use larder_policy::{Spec, SpecError};
use proptest::prelude::*;

fn error(text: &str) -> SpecError {
    text.parse::<Spec>().expect_err(text)
}

#[test]
fn given_parameters_are_printed_and_others_not() {
    for text in [
        "lru",
        "filter+fifo",
        "filter(theta=2)+fifo",
        "adaptsize(chance)+lru",
        "adaptsize(shape=threshold,interval=500000)+lru",
        "size(max=64KiB)+random",
        "size(max=65536)+filter(window=1000,table=65536)+fifo",
    ] {
        assert_eq!(text.parse::<Spec>().unwrap().to_string(), text);
    }
    assert_eq!(
        " adaptsize ( threshold , start = 1MB ) +lru "
            .parse::<Spec>()
            .unwrap()
            .to_string(),
        "adaptsize(threshold,start=1MB)+lru"
    );
    assert_eq!(
        "Filter+S3-FIFO".parse::<Spec>().unwrap().to_string(),
        "filter+s3fifo"
    );
    assert_eq!(
        "filter()+fifo".parse::<Spec>().unwrap().to_string(),
        "filter+fifo"
    );
}

#[test]
fn errors_that_do_not_help() {
    for (text, at, line) in [
        ("quark\nx", 0, "unknown policy `quark\\nx`"),
        ("lur", 0, "unknown policy `lur`, did you mean `lru`?"),
        (
            "adapt+lru",
            0,
            "unknown policy `adapt`, did you mean `adaptsize`?",
        ),
        ("quark", 0, "unknown policy `quark`"),
        ("", 0, "a policy's name is missing"),
        ("lru+", 0, "`lru` evicts and must stand last"),
        (
            "filter",
            0,
            "`filter` only admits, an eviction policy must follow, did you mean `filter+lru`?",
        ),
        (
            "filter(tehta=2)+lru",
            7,
            "unknown parameter `tehta` of `filter`, did you mean `theta`?",
        ),
        ("lru(x=1)", 4, "`lru` takes no arguments"),
        (
            "filter(theta=0)+lru",
            13,
            "`theta=0` is not a whole number from 1 to 65535 (requests)",
        ),
        ("filter(theta=2,theta=3)+lru", 15, "`theta` is given twice"),
        (
            "filter(table=1000)+lru",
            13,
            "`table=1000` is not a power of two from 1024 to 16777216 (slots of 16 bits)",
        ),
        ("filter(theta=2+lru", 14, "`,` or `)` is missing"),
        (
            "size+lru",
            0,
            "`size` needs `max`, a size of 1B or more, such as \"64KiB\"",
        ),
        (
            "size(max=64 parsecs)+lru",
            9,
            "`max=64 parsecs` is not a size of 1B or more, such as \"64KiB\" (bytes)",
        ),
        (
            "adaptsize(chanse)+lru",
            10,
            "unknown argument `chanse` of `adaptsize`, did you mean `chance`?",
        ),
        (
            "slru(4)",
            5,
            "unknown argument `4` of `slru`, which takes `segments=`, `large=`",
        ),
        (
            "filter(2,100)+lru",
            7,
            "unknown argument `2` of `filter`, which takes `theta=`, `window=`, `table=`",
        ),
        (
            "adaptsize(shape=x)+lru",
            16,
            "`shape=x` is not one of chance, threshold, prototype",
        ),
        ("lru)", 3, "unexpected `)`"),
    ] {
        let error = error(text);
        assert_eq!(
            error.to_string(),
            format!("policy `{}`, byte {at}: {line}", text.escape_debug())
        );
        assert_eq!(error.at(), at, "{text}");
    }
    let contradiction = "size(max=9)+filter(window=5000,table=1024)+lru"
        .parse::<Spec>()
        .unwrap();
    let capacity = larder_units::ByteSize::from_mib(1);
    let error =
        larder_policy::Engine::new(&contradiction, capacity, &larder_units::Streams::new(1))
            .err()
            .unwrap();
    assert_eq!(error.at(), 12);
    assert!(
        error
            .to_string()
            .contains("`table=1024` is smaller than `window=5000`"),
        "{error}"
    );
}

#[test]
fn specs_without_end() {
    assert!(
        error(&"size(max=1)+".repeat(10))
            .to_string()
            .contains("more than 8 stages")
    );
    let error = error(&"x".repeat(100_000)).to_string();
    assert!(
        error.contains("longer than 512 bytes") && error.len() < 200,
        "{error}"
    );
}

proptest! {
    #[test]
    fn a_text_that_panics(text in ".{0,80}") {
        let _ = text.parse::<Spec>().map_err(|error| error.to_string());
    }

    #[test]
    fn a_spec_that_changes(pieces in proptest::collection::vec(
        proptest::sample::select(vec!["lru", "fifo", "filter", "size", "adaptsize", "+", "(", ")", ",", "=", "theta", "2", "max",
            "64KiB", "chance", " ", "window", "100", "é"]), 0..14)) {
        let text = pieces.concat();
        match text.parse::<Spec>() {
            Ok(spec) => {
                prop_assert_eq!(&spec.to_string().parse::<Spec>().unwrap(), &spec);
                prop_assert_eq!(spec.to_string(), text.replace(' ', "").replace("()", ""));
            }
            Err(error) => prop_assert!(error.at() <= text.len(), "{}", error),
        }
    }
}
