//! `msccl bench --invariant`: whether bits depend on the call.

use std::io::Write;

use msccl_bench::{
    InvarianceObserver, InvarianceReport, InvarianceRow, LibraryBits, LibraryReport, Plan,
    ProcessGroup, SessionObserver, compare_bits,
};
use serde_json::json;

use super::library_line;
use crate::args::BenchArgs;
use crate::artifact;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;

/// Compares bits, and writes what was requested.
pub fn compare(
    args: &BenchArgs,
    plan: &Plan,
    group: Option<&ProcessGroup>,
    output: &mut Output,
) -> Result<Exit> {
    if let Some(other) = args.collective.0.iter().find(|of| !of.reduces()) {
        let text = format!(
            "--invariant compares reductions, and {other} adds nothing; expected allreduce, \
             reducescatter or reduce"
        );
        return Err(Failure::new(text));
    }
    let mut follower = Follower { args, plan, group, output };
    let report = compare_bits(plan, group, &mut follower);
    let (libraries, is_good) = (&report.libraries, report.is_good());
    for (number, library) in libraries.iter().enumerate() {
        let verdict = verdict(&library.name, report.total(number).as_ref());
        output.line(format_args!("# {verdict}"));
    }
    if group.is_none_or(ProcessGroup::is_speaker)
        && let Some(path) = args.json_file()
    {
        artifact::write_text(path, &json(plan, &report)?)?;
    }
    Ok(if is_good { Exit::Success } else { Exit::Refused })
}

/// What a library's bits depend on, in a sentence.
fn verdict(name: &str, total: Option<&LibraryBits>) -> String {
    let Some(total) = total else { return format!("{name}: out") };
    let LibraryBits { calls, ways: _, elements, differ, ranks_differ, example, refused } = total;
    if total.is_good() {
        return format!("{name}: the same bits in all {calls} calls, {elements} elements compared");
    }
    let mut text = format!("{name}: {differ} of {elements} elements have other bits");
    if *ranks_differ > 0 {
        text += &format!(", ranks differ in {ranks_differ} of {calls} calls");
    }
    if *refused > 0 {
        text += &format!(", {refused} calls were refused");
    }
    match example {
        Some(example) => format!("{text}; {example}"),
        None => text,
    }
}

fn json(plan: &Plan, report: &InvarianceReport) -> Result<String> {
    let libraries = report.libraries.iter().enumerate().map(|(number, library)| {
        json!({
            "name": library.name,
            "path": library.path,
            "lost": library.loss,
            "total": report.total(number),
        })
    });
    let value = json!({
        "schema": "msccl-bench-invariant/1",
        "ranks": plan.ranks,
        "good": report.is_good(),
        "libraries": libraries.collect::<Vec<_>>(),
        "rows": report.rows,
    });
    let text = serde_json::to_string_pretty(&value);
    Ok(format!("{}\n", text.map_err(|error| Failure::new(error.to_string()))?))
}

/// Reports what happens while it happens.
struct Follower<'a> {
    args: &'a BenchArgs,
    plan: &'a Plan,
    group: Option<&'a ProcessGroup>,
    output: &'a mut Output,
}

impl SessionObserver for Follower<'_> {
    fn line(&mut self, library: &str, rank: u32, line: &str) {
        self.output.note(format_args!("{library} r{rank}: {line}"));
    }

    fn lost(&mut self, library: &str, reason: &str) {
        // If it is rank 0 that is lost, somebody else has to say so.
        self.output.speak_only_if(self.group.is_none_or(ProcessGroup::is_speaker));
        self.output.error(format_args!("{library} is out: {reason}"));
    }
}

impl InvarianceObserver for Follower<'_> {
    fn begin(&mut self, libraries: &[LibraryReport]) {
        let Self { args, plan, output, .. } = self;
        output.line(format_args!(
            "# Do the bits of an element depend on its call? {}, {} ranks",
            args.collective, plan.ranks
        ));
        for library in libraries {
            output.line(library_line(library));
        }
        output.line("#");
        for line in InvarianceRow::heading(libraries.iter().map(|library| &*library.name)) {
            output.line(line);
        }
        let _ = output.made().flush();
    }

    fn row(&mut self, row: &InvarianceRow) {
        self.output.line(row.line());
        let _ = self.output.made().flush();
    }
}
