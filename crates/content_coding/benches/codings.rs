//! The bytes a second of each coding and effort, on text like that of pages: the README of the
//! repository, repeated with other words.

use divan::Bencher;
use divan::counter::BytesCount;
use larder_content_coding::{Effort, encode};
use larder_http::ContentCoding;

fn main() {
    divan::main();
}

/// Text of 600 kB without long repetitions.
fn text() -> Vec<u8> {
    let words: Vec<&str> = include_str!("../../../README.md")
        .split_whitespace()
        .collect();
    let (mut text, mut state) = (Vec::new(), 1u64);
    while text.len() < 600_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let at = (state >> 33) as usize % words.len();
        for word in &words[at..words.len().min(at + 4)] {
            text.extend_from_slice(word.as_bytes());
            text.push(b' ');
        }
    }
    text
}

#[divan::bench(args = ContentCoding::ALL)]
fn streaming(bencher: Bencher<'_, '_>, coding: ContentCoding) {
    bench(bencher, coding, Effort::Streaming);
}

#[divan::bench(args = ContentCoding::ALL)]
fn stored(bencher: Bencher<'_, '_>, coding: ContentCoding) {
    bench(bencher, coding, Effort::Stored);
}

fn bench(bencher: Bencher<'_, '_>, coding: ContentCoding, effort: Effort) {
    let text = text();
    bencher
        .counter(BytesCount::of_slice(&text))
        .bench(|| encode(coding, effort, divan::black_box(&text)));
}
