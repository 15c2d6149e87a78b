//! Results that are texts: written to a place of the caller, who says how long it is.

use crate::abi::OutArray;
use crate::fault::Fault;

/// Writes `text` and a zero byte to a place that has `capacity` bytes: argument `argument` of
/// `function`.
///
/// # Errors
///
/// The place is null or too short.
pub fn give(
    (function, argument): (&str, &str),
    place: OutArray<u8>,
    capacity: usize,
    text: &str,
) -> Result<(), Fault> {
    if place.is_null() {
        return Err(Fault::null(function, argument));
    }
    let bytes: Vec<u8> = text.bytes().chain([0]).collect();
    if bytes.len() > capacity {
        let needed = bytes.len();
        return Err(Fault::argument(format!(
            "{function} : expected room for {needed} bytes, found {capacity}"
        )));
    }
    place.set_all(&bytes);
    Ok(())
}
