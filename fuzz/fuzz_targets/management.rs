//! ControlParameters and ControlResponse: what decodes encodes to something that decodes alike.
#![no_main]

use larder_packet::{ControlParameters, ControlResponse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|wire: &[u8]| {
    match ControlParameters::decode(wire) {
        Ok(parameters) => assert_eq!(
            ControlParameters::decode(&parameters.encode()),
            Ok(parameters)
        ),
        Err(error) => assert!(error.offset <= wire.len(), "{error}"),
    }
    match ControlResponse::decode(wire) {
        Ok(response) => assert_eq!(ControlResponse::decode(&response.encode()), Ok(response)),
        Err(error) => assert!(error.offset <= wire.len(), "{error}"),
    }
});
