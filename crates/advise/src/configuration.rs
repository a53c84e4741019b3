//! The configuration of a node with the chosen policy and size.

use crate::advice::Advice;
use crate::sentences::{lines_of_choice, size};
use larder_units::ByteSize;
use std::fmt::Write;

/// The default of `[http] max_object`, which may not exceed the cache.
const MAX_OBJECT: u64 = 64 << 20;

impl Advice {
    /// Returns the text of a configuration file of the node. It has a meaning if the objects have
    /// sizes ([`Traffic::check_sizes`](crate::Traffic::check_sizes)).
    pub fn configuration(&self) -> String {
        configuration(self)
    }
}

fn configuration(advice: &Advice) -> String {
    let chosen = &advice.choice.chosen;
    let mut text = format!(
        "# From {} by `larder advise`.\n",
        advice.traffic.files.join(", ").escape_debug()
    );
    for line in &lines_of_choice(advice) {
        _ = writeln!(text, "# {line}");
    }
    text += "# The names of the other keys, and their defaults: `larder run --print-config`.\n\n[http]\n";
    text += "# origin = \"http://127.0.0.1:3000\"   # your site; without it, generated objects\n";
    // A whole number of MiB reads better, and never less than was chosen.
    let mebibytes = chosen.capacity.div_ceil(1 << 20);
    let _ = writeln!(
        text,
        "cache = \"{}\"   # {}",
        ByteSize::from_mib(mebibytes),
        size(chosen.capacity, advice)
    );
    let _ = writeln!(text, "policy = \"{}\"", chosen.policy);
    if mebibytes << 20 < MAX_OBJECT {
        let _ = writeln!(text, "max_object = \"{}\"", ByteSize::from_mib(mebibytes));
    }
    text
}
