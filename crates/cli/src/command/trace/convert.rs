//! `msccl trace convert`.

use std::io::{self, Write};

use msccl_trace::export::{kineto_base_ns, merge_with_profile, write_chrome, write_perfetto};
use msccl_trace::predict::PlacedPrediction;
use msccl_trace::report::report;
use msccl_trace::timeline::Timeline;

use super::expectations::expectations;
use super::recordings::read;
use crate::args::TraceConvertArgs;
use crate::artifact;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input;
use crate::output::Output;

/// Writes the timeline of a communicator for other tools.
pub fn convert(args: &TraceConvertArgs, output: &mut Output) -> Result<Exit> {
    let runs = read(&args.recordings)?;
    let run = runs.first().ok_or_else(|| Failure::new("there is no recording"))?;
    if runs.len() > 1 {
        output.note(format_args!(
            "{} communicators are recorded; this is about {}, and --communicator picks another",
            runs.len(),
            run.id
        ));
    }
    let timeline = &run.timeline;
    let expected = expectations(&args.predict, timeline, output)?;
    // What launches a prediction stands beside is in the report; without one, that takes long.
    let is_predicted = expected.predictions.iter().any(Option::is_some);
    let groups = if is_predicted { report(timeline, &expected).groups } else { Vec::new() };
    let predictions = groups.iter().zip(&expected.predictions);
    let predicted = predictions.filter_map(|(group, prediction)| {
        let launch = group.shown_launch;
        prediction.as_ref().map(|prediction| PlacedPrediction { launch, prediction })
    });
    write_files(args, timeline, &predicted.collect::<Vec<_>>())?;
    Ok(Exit::Success)
}

fn write_files(
    args: &TraceConvertArgs,
    timeline: &Timeline,
    predicted: &[PlacedPrediction<'_>],
) -> Result<()> {
    let TraceConvertArgs { perfetto: to_perfetto, chrome: to_chrome, merge, .. } = args;
    if let Some(path) = to_perfetto {
        write(path, |out| write_perfetto(timeline, predicted, out))?;
    }
    if let Some(path) = to_chrome {
        match merge {
            None => {
                let base_ns = kineto_base_ns(timeline.origin_unix_ns);
                write(path, |out| write_chrome(timeline, predicted, base_ns, out))?;
            }
            Some(profile) => {
                let text = input::Input::read(profile)?.text;
                let merged = merge_with_profile(timeline, predicted, &text)
                    .map_err(|error| Failure::new(format!("{profile}: {error}")))?;
                artifact::write_text(path, &merged)?;
            }
        }
    }
    Ok(())
}

/// Writes a file while it is made: it may be larger than memory.
fn write(path: &str, make: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    let written = artifact::write(path, |out| {
        make(out).map_err(|error| format!("cannot write {path}: {error}"))
    });
    written.map(drop).map_err(Failure::new)
}
