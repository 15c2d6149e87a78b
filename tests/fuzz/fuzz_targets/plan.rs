//! Any words as a plan: decoded, and encoded to the same words, or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msccl_plan::{decode, encode};

fuzz_target!(|bytes: &[u8]| {
    let words: Vec<u32> =
        bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
    if let Ok(program) = decode(&words) {
        assert_eq!(encode(&program).ok().as_deref(), Some(words.as_slice()));
    }
});
