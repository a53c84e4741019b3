//! The only place where the HTTP side, the disk tiers and the what-if analysis read entropy: seeds
//! and keys.

use ring::rand::{SecureRandom, SystemRandom};

/// Returns uniform words of the operating system's entropy.
pub fn words<const N: usize>() -> [u64; N] {
    let random = SystemRandom::new();
    std::array::from_fn(|_| {
        let mut bytes = [0; 8];
        // Fails only if the kernel has no source of entropy; an unkeyed table would be worse than
        // no node.
        #[allow(clippy::expect_used, reason = "see above")]
        random
            .fill(&mut bytes)
            .expect("the operating system gives no entropy");
        u64::from_le_bytes(bytes)
    })
}
