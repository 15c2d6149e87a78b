//! The generated texts: the C header that kernels include, and the lists of `docs/PLAN.md`.
//!
//! `cargo test -p msccl-plan` compares both files with what these functions give, and rewrites them
//! when `MSCCL_BLESS` is set.

use std::fmt::Write;

use crate::layout::{self, Entry, header, link, operand, step, tb};
use crate::record::{Field, Record};
use crate::{combine, launch};

/// A table of constants with its heading and the prefix of its names in C.
struct Section {
    /// Names it in the markers of `docs/PLAN.md`.
    name: &'static str,
    title: &'static str,
    prefix: &'static str,
    entries: &'static [Entry],
    /// Words in one record, for the sections that are records.
    length: Option<usize>,
}

const SECTIONS: [Section; 14] = [
    section("header", "Words of the header", "HEADER_", header::WORDS, Some(header::LENGTH)),
    section("values", "Values in the header", "", layout::VALUES, None),
    section("average", "Fields of `AVERAGE_OF`", "HEADER_", header::AVERAGE_FIELDS, None),
    section("tb", "Words of a thread block's entry", "TB_", tb::WORDS, Some(tb::LENGTH)),
    section("blocks", "Fields of a thread block's words", "TB_", tb::FIELDS, None),
    section("link", "Words of a link end's entry", "LINK_", link::WORDS, Some(link::LENGTH)),
    section("traits", "Bits of a link end's traits", "LINK_", link::TRAIT_BITS, None),
    section("step", "Fixed words of a step", "STEP_", step::WORDS, Some(step::LENGTH)),
    section("fields", "Fields of a step's words", "STEP_", step::FIELDS, None),
    section("opcodes", "Opcodes", "", layout::OPCODES, None),
    section("operand", "Fields of an operand", "", operand::PLACES, None),
    section("table", "Fields of a link in an operand table", "", operand::TABLE, None),
    section("wait", "Fields of a wait", "", operand::WAIT, None),
    section("symbols", "Symbols", "", layout::SYMBOLS, None),
];

const fn section(
    name: &'static str,
    title: &'static str,
    prefix: &'static str,
    entries: &'static [Entry],
    length: Option<usize>,
) -> Section {
    Section { name, title, prefix, entries, length }
}

/// The text of `kernels/include/msccl_plan.h`.
pub fn c_header() -> String {
    let mut text = String::from(
        "// The words of a plan; docs/PLAN.md explains them. What a launch is given.\n\
         // Generated from layout.rs and launch.rs of crates/plan/src: do not edit. \
         Regenerate with\n\
         //     MSCCL_BLESS=1 cargo test -p msccl-plan\n\
         #pragma once\n\n",
    );
    text.push_str("enum : unsigned {\n");
    for Section { name: _, title, prefix, entries, length } in SECTIONS {
        let _ = writeln!(text, "    // {title}.");
        for Entry { name, value, meaning } in entries {
            let name = format!("MSCCL_PLAN_{prefix}{name}");
            let _ = writeln!(text, "    {name:<36} = {},  // {meaning}", c_number(*value));
        }
        if let Some(words) = length {
            let name = format!("MSCCL_PLAN_{prefix}LENGTH");
            let _ = writeln!(text, "    {name:<36} = {words},  // words");
        }
        text.push('\n');
    }
    let alignment = step::ALIGNMENT;
    let name = "MSCCL_PLAN_STEP_ALIGNMENT";
    let _ = writeln!(text, "    // Steps start at multiples of this many words.");
    let _ = writeln!(text, "    {name:<36} = {alignment},");
    text.push_str("};\n");
    text.push_str(&launch_constants());
    launch::RECORDS.iter().for_each(|record| text.push_str(&c_record(record)));
    text
}

/// The text of `kernels/include/msccl_combine.h`.
pub fn combine_header() -> String {
    let mut text = String::from(
        "// What the combining kernel is given.\n\
         // Generated from combine.rs of crates/plan/src: do not edit. Regenerate with\n\
         //     MSCCL_BLESS=1 cargo test -p msccl-plan\n\
         #pragma once\n",
    );
    let meaning = "dynamic shared memory of each thread; with less, it needs none";
    let bytes = combine::RING_BYTES;
    let _ =
        writeln!(text, "\nenum : unsigned {{ MSCCL_COMBINE_RING_BYTES = {bytes} }};  // {meaning}");
    combine::RECORDS.iter().for_each(|record| text.push_str(&c_record(record)));
    text
}

/// The constants of the launch ABI in C.
fn launch_constants() -> String {
    let mut text = String::from("\n// What a launch is given.\nenum : unsigned {\n");
    for (name, value, meaning) in launch::CONSTANTS {
        let name = format!("MSCCL_{name}");
        let _ = writeln!(text, "    {name:<36} = {value},  // {meaning}");
    }
    let _ = writeln!(text, "    {:<36} = {},  // words", "MSCCL_PLAN_WORDS", launch::PLAN_WORDS);
    text.push_str("};\n");
    text
}

/// A record of the launch ABI in C, with an assertion of its size.
fn c_record(record: &Record) -> String {
    let Record { c_name, meaning, bytes, fields } = record;
    let mut text = format!("\n// {meaning}\nstruct {c_name} {{\n");
    for Field { name, c_type, length, meaning } in *fields {
        let length = length.map_or(String::new(), |length| format!("[{length}]"));
        let _ = writeln!(text, "    {c_type} {name}{length};  // {meaning}");
    }
    let _ = writeln!(text, "}};\nstatic_assert(sizeof({c_name}) == {bytes}, \"{c_name}\");");
    text
}

/// The lists of `docs/PLAN.md`: the name in the list's markers, and its text.
pub fn tables() -> Vec<(&'static str, String)> {
    let list = |section: &Section| {
        let items = section.entries.iter().map(|Entry { name, value, meaning }| {
            list_item(&format!("`{name}` = {}: {meaning}", c_number(*value)))
        });
        (section.name, items.collect())
    };
    SECTIONS.iter().map(list).collect()
}

/// `text` as an item of a list, in lines of at most 100 columns.
fn list_item(text: &str) -> String {
    let mut item = String::from("*");
    let mut columns = 1;
    for word in text.split(' ') {
        let length = word.chars().count() + 1;
        if columns + length > 100 {
            item.push_str("\n ");
            columns = 1;
        }
        columns += length;
        item.push(' ');
        item.push_str(word);
    }
    item + "\n"
}

/// Small numbers in decimal, patterns in hexadecimal.
fn c_number(value: u32) -> String {
    if value < 64 { value.to_string() } else { format!("{value:#x}") }
}
