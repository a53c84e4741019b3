//! The time-stamp counter: cycles of the processor's nominal clock on x86-64, nanoseconds
//! elsewhere.

/// The unit of [`now`].
pub(super) const UNIT: &str = if cfg!(target_arch = "x86_64") {
    "cycles of the time-stamp counter"
} else {
    "nanoseconds"
};

/// Returns the counter after all earlier instructions have ended.
#[cfg(target_arch = "x86_64")]
#[allow(
    unsafe_code,
    reason = "the time-stamp counter is reached by an intrinsic"
)]
pub(super) fn now() -> u64 {
    // SAFETY: every x86-64 processor has both instructions, and neither touches memory.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}

/// Returns the nanoseconds since the first call.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn now() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START
        .get_or_init(std::time::Instant::now)
        .elapsed()
        .as_nanos() as u64
}
