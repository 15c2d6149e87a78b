//! Any text in the text form: read and judged, or refused. What is proved is printed and read back the
//! same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msccl_ir::{Target, text};
use msccl_verify::verify;

fuzz_target!(|input: &str| {
    let Ok(algorithm) = text::parse(input) else { return };
    if let Ok(verified) = verify(algorithm, &Target::native()) {
        let again = text::parse(&text::print(verified.algorithm()));
        assert_eq!(again.ok().as_ref(), Some(verified.algorithm()));
    }
});
