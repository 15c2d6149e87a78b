//! Specialised kernels: the source of a kernel in which a plan's program is constant, and perhaps
//! the shape of a call too, so that the compiler decodes the program and decides what the
//! interpreter decides on the way.
//!
//! The text instantiates `specialised/specialised.cuh` and includes the headers of the
//! interpreters, whose moves of data it shares. Its kernels take the same record as interpreters
//! and leave the same behind. What is [known](Known) they disregard in that record; addresses, the
//! call's number and the shape of the wires are never known.
//!
//! Links never deliver directly here.
//!
//! [`Kernel`] is what the runtime uses of it: a kernel for one rank's plan, one protocol and one
//! type. Its [`Key`] is a number of everything that its machine code depends on; [`seal`] makes a
//! file of the code that says whether it is whole, and whose it is. [`Case`] is for measurements.

mod case;
mod headers;
mod kernel;
mod sealed;

use std::fmt::Write;

use msccl_collective::{DataType, Protocol};
use msccl_plan::Plan;
use msccl_plan::launch::{self, Launch};
use msccl_plan::layout::{header, link, operand, step, tb};

pub use case::Case;
pub use headers::headers;
pub(crate) use headers::plain_headers;
pub(crate) use kernel::common;
pub use kernel::{Kernel, Key};
pub use sealed::{Unsealed, seal, unseal};

/// The headers of interpreters under `protocol`.
fn includes(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Simple => "#include \"interpreter.cuh\"\n",
        Protocol::Ll => "#include \"interpreter.cuh\"\n#include \"ll.cuh\"\n",
        Protocol::Ll128 => "#include \"interpreter.cuh\"\n#include \"ll128.cuh\"\n",
    }
}

/// The name of the kernel of [`interpreter_source`].
pub const INTERPRETER: &str = "msccl_interpreter";

/// The name of the file with the compiled kernel of [`interpreter_source`].
pub fn interpreter_file(case: &Case) -> String {
    format!("interpreter.{}.{}.cubin", case.protocol, case.data_type)
}

/// The name of the kernel of `rank`.
pub fn kernel(rank: usize) -> String {
    format!("msccl_special_{rank}")
}

/// What the compiler knows of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// The plan: every call is served, in blocks of any number of threads.
    Plan,
    /// The plan, how the call is cut, its reduction, and the number of threads.
    Call {
        /// Threads in a block.
        threads: u32,
    },
}

/// The source of kernels for the ranks of `ranks`, in order, each with what its launches are given.
pub fn source(
    protocol: Protocol,
    data_type: DataType,
    known: Known,
    ranks: &[(&Plan, Launch)],
) -> String {
    let (block, threads) = match known {
        Known::Plan => (String::new(), launch::threads_max(protocol)),
        Known::Call { threads } => (block(threads), threads),
    };
    let includes = includes(protocol);
    let mut text = format!(
        "{block}{includes}#include \"specialised.cuh\"\n\nusing namespace msccl::specialised;\n"
    );
    for (rank, (plan, launch)) in ranks.iter().enumerate() {
        let (words, name) = (plan.words(), kernel(rank));
        let blocks = (0..launch.tb_count).map(|tb| thread_block(protocol, data_type, words, tb));
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "\nextern \"C\" __global__ void __launch_bounds__({threads}, MSCCL_BLOCKS_EACH)\n    \
             {name}(const __grid_constant__ msccl_launch launch) {{\n    \
             __shared__ msccl::specialised::Shared shared;\n{}    \
             switch (blockIdx.x) {{\n{}    }}\n}}\n",
            record(known, launch),
            blocks.collect::<String>()
        );
    }
    text
}

/// The source of the interpreter that could run `case`: to measure headers of which there are no
/// images yet.
pub fn interpreter_source(case: &Case) -> String {
    let (protocol, number) = (protocol_name(case.protocol), device_name(case.data_type));
    let includes = includes(case.protocol);
    format!("{includes}MSCCL_INTERPRETER({INTERPRETER}, {protocol}, {number})\n")
}

/// A header as these kernels include it: loops over operands, of which interpreters keep one copy,
/// are unrolled, so that operands can be in registers.
fn unrolled(header: &str) -> String {
    const KEPT: &str = "#pragma unroll 1";
    let mut text = String::with_capacity(header.len());
    let mut lines = header.lines().peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().map_or("", |next| next.trim_start());
        let over_operands =
            ["for (u32 to = ", "for (u32 from = "].iter().any(|begin| next.starts_with(begin));
        let kept = line.trim() == KEPT && over_operands;
        text.push_str(if kept { "#pragma unroll" } else { line });
        text.push('\n');
    }
    text
}

/// Declares the number of threads in a block as a constant.
fn block(threads: u32) -> String {
    format!(
        "struct MscclBlock {{ static constexpr unsigned x = {threads}; }};\n\
         #define blockDim MscclBlock{{}}\n"
    )
}

/// Fields of a launch that are never known when a kernel is made.
const OF_LAUNCH: [&str; 13] = [
    "links",
    "input",
    "output",
    "scratch",
    "signals",
    "signals_end",
    "control",
    "progress",
    "notice",
    "call",
    "wires",
    "link_depth",
    "slot_bytes",
];

/// The record `call`: what is known of `launch` as constants, the rest from the parameter.
fn record(known: Known, launch: &Launch) -> String {
    let Launch {
        plan: _,
        links: _,
        input: _,
        output: _,
        scratch: _,
        offers: _,
        longest_step: _,
        most_messages: _,
        signals: _,
        signals_end: _,
        control: _,
        progress: _,
        notice: _,
        call: _,
        block_bytes,
        chunk_bytes,
        part_bytes,
        slice_bytes,
        rounds,
        instances,
        chunks_per_message,
        ranks,
        wires: _,
        link_depth: _,
        slot_bytes: _,
        reduction,
        divisor,
        flags,
        tb_count,
        link_table: _,
        signal_stride,
        block_chunks,
        views: _,
        words: _,
    } = *launch;
    let of_plan = [
        ("ranks", u64::from(ranks)),
        ("flags", u64::from(flags)),
        ("tb_count", u64::from(tb_count)),
        ("signal_stride", u64::from(signal_stride)),
        ("block_chunks", u64::from(block_chunks)),
    ];
    let of_call = [
        ("block_bytes", block_bytes),
        ("chunk_bytes", chunk_bytes),
        ("part_bytes", part_bytes),
        ("slice_bytes", slice_bytes),
        ("rounds", u64::from(rounds)),
        ("instances", u64::from(instances)),
        ("chunks_per_message", u64::from(chunks_per_message)),
        ("reduction", u64::from(reduction)),
        ("divisor", u64::from(divisor)),
    ];
    let given = |field: &str| format!("    call.{field} = launch.{field};\n");
    let constant = |(field, value): (&str, u64)| format!("    call.{field} = {value};\n");
    let of_call = of_call.map(|(field, value)| match known {
        Known::Plan => given(field),
        Known::Call { .. } => constant((field, value)),
    });
    let (of_launch, of_plan) = (OF_LAUNCH.map(given), of_plan.map(constant));
    format!(
        "    msccl_launch call;\n{}{}{}",
        of_launch.concat(),
        of_plan.concat(),
        of_call.concat()
    )
}

/// The case of the `switch` for thread block `at` of the plan `words`.
fn thread_block(protocol: Protocol, data_type: DataType, words: &[u32], at: u32) -> String {
    let word = |at: usize| words.get(at).copied().unwrap_or(0);
    let entry = word(header::TB_TABLE as usize) as usize + at as usize * tb::LENGTH;
    let of = |field: u32| word(entry + field as usize);
    let links = of(tb::LINKS);
    let receives = links & u32::from(u16::MAX);
    let ends = (0..receives + (links >> tb::SENDS_SHIFT)).map(|end| {
        let first = word(header::LINK_TABLE as usize) + of(tb::FIRST_LINK) * link::LENGTH as u32;
        let entry = (first + end * link::LENGTH as u32) as usize;
        let (peer, number) =
            (word(entry + link::PEER as usize), word(entry + link::NUMBER as usize));
        format!("End<{peer}, {number}>")
    });
    let ends: Vec<_> = ends.collect();
    let first = of(tb::FIRST_STEP) as usize;
    let steps = Step::all(words.get(first..).unwrap_or_default(), of(tb::STEPS));
    let texts: Vec<_> = (0..steps.len()).map(|at| Step::text(&steps, at)).collect();
    format!(
        "        case {at}:\n            \
         return run<msccl::{}, msccl::{}, {at}, {receives}>(\n                \
         call, shared, Ends<{}>{{}},\n                Steps<{}>{{}});\n",
        protocol_name(protocol),
        device_name(data_type),
        ends.join(", "),
        texts.join(",\n                      "),
    )
}

/// The words of a step, or of several that run as one.
struct Step<'a> {
    /// The number of the last of them.
    index: u32,
    head: u32,
    count: u32,
    waits: &'a [u32],
    sources: &'a [u32],
    destinations: &'a [u32],
}

impl<'a> Step<'a> {
    /// The first `count` steps of `words`.
    fn all(mut words: &'a [u32], count: u32) -> Vec<Self> {
        let (mut steps, mut next) = (Vec::new(), 0);
        while next < count {
            let word = |at: u32| words.get(at as usize).copied().unwrap_or(0);
            let (head, operands) = (word(step::HEAD), word(step::OPERANDS));
            let waits = (head >> step::WAITS_SHIFT) as usize;
            let destinations = (operands >> step::DESTINATIONS_SHIFT) as usize;
            let sources = operands as usize - (destinations << step::DESTINATIONS_SHIFT);
            let far = if head & step::FAR == 0 { 0 } else { sources + destinations };
            let rest = words.get(step::LENGTH..).unwrap_or_default();
            let (waited, rest) = rest.split_at(waits.min(rest.len()));
            let (read, rest) = rest.split_at(sources.min(rest.len()));
            let written = rest.get(..destinations).unwrap_or(rest);
            let count = word(step::COUNT);
            next += if head & step::BUNDLE == 0 { 1 } else { sources as u32 };
            steps.push(Self {
                index: next - 1,
                head,
                count,
                waits: waited,
                sources: read,
                destinations: written,
            });
            let used = step::LENGTH + waits + sources + destinations + far;
            let length = used.next_multiple_of(step::ALIGNMENT);
            words = words.get(length..).unwrap_or_default();
        }
        steps
    }

    /// Entry `at` of `steps`, as a type.
    fn text(steps: &[Self], at: usize) -> String {
        let Self { index, head, count, waits, sources, destinations } = &steps[at];
        let is_link = |word: &&u32| **word >> operand::PLACE_SHIFT == operand::PLACE_LINK;
        // A link is the same whether what comes by it is raw or not.
        let links_of = |step: &Self| -> Vec<u32> {
            step.sources.iter().filter(is_link).map(|word| word & !operand::RAW).collect()
        };
        let own = links_of(&steps[at]);
        let last = !steps[at + 1..]
            .iter()
            .any(|step| links_of(step).iter().any(|link| own.contains(link)));
        let words = |words: &[u32]| {
            let words: Vec<_> = words.iter().map(|word| format!("{word:#x}")).collect();
            format!("Words<{}>", words.join(", "))
        };
        let (waits, sources, destinations) = (words(waits), words(sources), words(destinations));
        format!(
            "msccl::specialised::Step<{at}, {index}, {last}, {head:#x}, {count}, {waits}, \
             {sources}, {destinations}>"
        )
    }
}

fn protocol_name(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Simple => "Simple",
        Protocol::Ll => "Ll",
        Protocol::Ll128 => "Ll128",
    }
}

/// The type of `number.cuh` for elements of `data_type`.
pub(crate) fn device_name(data_type: DataType) -> &'static str {
    match data_type {
        DataType::I8 => "I8",
        DataType::U8 => "U8",
        DataType::I32 => "I32",
        DataType::U32 => "U32",
        DataType::I64 => "I64",
        DataType::U64 => "U64",
        DataType::F16 => "F16",
        DataType::Bf16 => "Bf16",
        DataType::F32 => "F32",
        DataType::F64 => "F64",
        DataType::F8E4M3 => "F8E4M3",
        DataType::F8E5M2 => "F8E5M2",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_loops_over_operands_are_unrolled() {
        let header = "#pragma unroll 1\nfor (u32 at = 0;\n  #pragma unroll 1\n  for (u32 to = 0;\n";
        let unrolled = "#pragma unroll 1\nfor (u32 at = 0;\n#pragma unroll\n  for (u32 to = 0;\n";
        assert_eq!(super::unrolled(header), unrolled);
    }
}
