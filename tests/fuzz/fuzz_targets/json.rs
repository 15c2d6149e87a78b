//! Any bytes as JSON: read and judged, or refused. What is read is written and read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msccl_interchange::json;
use msccl_ir::Target;
use msccl_verify::verify;

fuzz_target!(|bytes: &[u8]| {
    let Ok(algorithm) = json::read_bytes(bytes) else { return };
    let again = json::read(&json::write(&algorithm));
    assert_eq!(again.ok().as_ref(), Some(&algorithm));
    drop(verify(algorithm, &Target::native()));
});
