//! Spreads an id over 64 bits.

/// The finaliser of MurmurHash3 (Appleby, 2011). The ids of traces are small and dense, and tables
/// need spread bits. It is no defence against chosen ids: ids from the network are keyed hashes
/// already.
pub(crate) const fn mix(id: u64) -> u64 {
    let id = (id ^ (id >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let id = (id ^ (id >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    id ^ (id >> 33)
}
