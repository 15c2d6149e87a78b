//! The headers that special kernels include, carried along: whoever compiles them has no sources.

use std::sync::OnceLock;

use super::unrolled;
use crate::recipe::{HEADERS, SPECIAL_HEADER};

/// The texts of the headers, in the order of [`HEADERS`], that of special kernels last.
const TEXTS: [&str; HEADERS.len() + 1] = [
    include_str!("../../include/msccl_plan.h"),
    include_str!("../../device/ptx.cuh"),
    include_str!("../../device/memory.cuh"),
    include_str!("../../device/number.cuh"),
    include_str!("../../device/block.cuh"),
    include_str!("../../device/reduce.cuh"),
    include_str!("../../device/wait.cuh"),
    include_str!("../../device/link.cuh"),
    include_str!("../../device/direct.cuh"),
    include_str!("../../device/move.cuh"),
    include_str!("../../device/pieces.cuh"),
    include_str!("../../device/ragged.cuh"),
    include_str!("../../device/simple.cuh"),
    include_str!("../../device/packet.cuh"),
    include_str!("../../device/ll.cuh"),
    include_str!("../../device/ll128.cuh"),
    include_str!("../../device/step.cuh"),
    include_str!("../../device/crew.cuh"),
    include_str!("../../device/interpreter.cuh"),
    include_str!("../../device/small.cuh"),
    include_str!("../../device/bulk.cuh"),
    include_str!("../../device/exchange.cuh"),
    include_str!("../../special/special.cuh"),
];

/// What special kernels include: names, and texts with loops over operands unrolled.
pub fn headers() -> &'static [(String, String)] {
    static HEADERS_OF_ALL: OnceLock<Vec<(String, String)>> = OnceLock::new();
    HEADERS_OF_ALL.get_or_init(|| {
        let named = HEADERS.iter().chain([&SPECIAL_HEADER]).zip(TEXTS);
        named.map(|(path, text)| (name_of(path), unrolled(text))).collect()
    })
}

/// The name by which sources include the file at `path`.
fn name_of(path: &str) -> String {
    let bare = ["device/", "special/"].iter().find_map(|folder| path.strip_prefix(folder));
    bare.map_or_else(|| format!("../{path}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn every_header_is_the_file_of_its_name() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        for (path, text) in HEADERS.iter().chain([&SPECIAL_HEADER]).zip(TEXTS) {
            assert_eq!(fs::read_to_string(package.join(path)).unwrap(), text, "{path}");
        }
        assert_eq!(headers()[0].0, "../include/msccl_plan.h");
        assert_eq!(headers()[HEADERS.len()].0, "special.cuh");
    }
}
