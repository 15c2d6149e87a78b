//! The headers that kernels include which are compiled where they are used, carried along: whoever
//! compiles them has no sources.

use std::sync::OnceLock;

use super::unrolled;

/// The files of these paths below the folder of this package, with their texts.
macro_rules! carried {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../", $path)))),*]
    };
}

const CARRIED: [(&str, &str); 30] = carried![
    "include/msccl_plan.h",
    "device/ptx.cuh",
    "device/ptx_copies.cuh",
    "device/memory.cuh",
    "device/number.cuh",
    "device/block.cuh",
    "device/record.cuh",
    "device/record_clock.cuh",
    "device/reduce.cuh",
    "device/wait.cuh",
    "device/link.cuh",
    "device/direct.cuh",
    "device/move.cuh",
    "device/unaligned_tail.cuh",
    "device/unaligned.cuh",
    "device/simple.cuh",
    "device/packet.cuh",
    "device/ll.cuh",
    "device/ll128.cuh",
    "device/context.cuh",
    "device/operands.cuh",
    "device/step.cuh",
    "device/warp_specialised.cuh",
    "device/interpreter.cuh",
    "device/low_latency_mover.cuh",
    "device/low_latency.cuh",
    "device/exchange_records.cuh",
    "device/bulk.cuh",
    "device/exchange.cuh",
    "specialised/specialised.cuh",
];

/// What specialised kernels include: names, and texts with loops over operands unrolled.
pub fn headers() -> &'static [(String, String)] {
    static HEADERS: OnceLock<Vec<(String, String)>> = OnceLock::new();
    HEADERS.get_or_init(|| {
        CARRIED.iter().map(|(path, text)| (name_of(path), unrolled(text))).collect()
    })
}

/// What kernels include that are compiled as images are: names, and texts as they are.
pub fn plain_headers() -> &'static [(String, String)] {
    static HEADERS: OnceLock<Vec<(String, String)>> = OnceLock::new();
    HEADERS.get_or_init(|| {
        CARRIED.iter().map(|(path, text)| (name_of(path), (*text).to_owned())).collect()
    })
}

/// The name by which sources include the file at `path`.
fn name_of(path: &str) -> String {
    let bare = ["device/", "specialised/"].iter().find_map(|folder| path.strip_prefix(folder));
    bare.map_or_else(|| format!("../{path}"), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_have_the_names_by_which_they_are_included() {
        let names: Vec<_> = headers().iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[0], "../include/msccl_plan.h");
        assert_eq!(names[CARRIED.len() - 1], "specialised.cuh");
        let includes = headers().iter().flat_map(|(_, text)| text.lines());
        let includes = includes.filter_map(|line| line.strip_prefix("#include \""));
        for name in includes.map(|name| name.trim_end_matches('"')) {
            assert!(names.contains(&name), "{name} is included, and not carried along");
        }
    }
}
