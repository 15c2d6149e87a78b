//! Any bytes as XML: read and judged, or refused. What is proved is written and read back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msccl_interchange::xml;
use msccl_ir::Target;
use msccl_verify::verify;

fuzz_target!(|bytes: &[u8]| {
    let Ok(read) = xml::read_bytes(bytes) else { return };
    let Ok(verified) = verify(read.algorithm, &Target::msccl()) else { return };
    if let Ok(written) = xml::write(verified.algorithm(), read.dialect) {
        let again = xml::read(&written).map(|read| read.algorithm);
        assert_eq!(again.as_ref(), Ok(verified.algorithm()));
    }
});
