//! What stands on a disk that may have rotted, or been written by somebody else: superblock, region
//! header, record, trailer and footer.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    larder_disk::parse_anything(bytes);
});
