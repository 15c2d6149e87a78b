//! `msccl trace`: what a real run did.

mod control;
mod convert;
mod expectations;
mod recordings;
mod report;

use crate::args::{TraceAction, TraceArgs};
use crate::exit::Exit;
use crate::failure::Result;
use crate::output::Output;

/// Reports on recordings, converts or compares them; lets processes make some.
pub fn trace(args: &TraceArgs, output: &mut Output) -> Result<Exit> {
    match &args.action {
        TraceAction::Report(args) => report::report(args, output),
        TraceAction::Convert(args) => convert::convert(args, output),
        TraceAction::Compare(args) => report::compare(args, output),
        TraceAction::Start(args) => control::start(args),
        TraceAction::Stop(args) => control::stop(args),
    }
}
