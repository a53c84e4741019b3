//! HTTP over NDN: a request in an Interest and the head of a response in a Data. What is read
//! writes back to what reads the same; and what of a connection's stood in it does not go to the
//! origin.
#![no_main]

use larder_gateway::message::{Answer, Request, strip_connection};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(mut request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode()).as_ref(), Ok(&request));
        strip_connection(&mut request.headers);
        for name in ["transfer-encoding", "content-length", "connection", "host"] {
            assert!(!request.headers.contains_key(name), "{name}");
        }
    }
    if let Ok(answer) = Answer::decode(bytes) {
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }
});
