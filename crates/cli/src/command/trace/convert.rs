//! `msccl trace convert`.

use std::io::Write;

use msccl_trace::export::{chrome, kineto_base_ns, merge_with_profile, perfetto};
use msccl_trace::predict::PlacedPrediction;
use msccl_trace::report::report;

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
    let TraceConvertArgs { recordings, perfetto: to_perfetto, chrome: to_chrome, merge, predict } =
        args;
    let runs = read(recordings)?;
    let run = runs.first().ok_or_else(|| Failure::new("there is no recording"))?;
    if runs.len() > 1 {
        output.note(format_args!(
            "{} communicators are recorded; this is about {}, and --communicator picks another",
            runs.len(),
            run.id
        ));
    }
    let timeline = &run.timeline;
    let expected = expectations(predict, timeline, output)?;
    let groups = report(timeline, &expected).groups;
    let predictions = groups.iter().zip(&expected.predictions);
    let predicted = predictions.filter_map(|(group, prediction)| {
        let launch = group.shown_launch;
        prediction.as_ref().map(|prediction| PlacedPrediction { launch, prediction })
    });
    let predicted: Vec<_> = predicted.collect();
    if let Some(path) = to_perfetto {
        let bytes = perfetto(timeline, &predicted);
        let write = |out: &mut dyn Write| out.write_all(&bytes).map_err(|error| error.to_string());
        artifact::write(path, |out| write(out)).map_err(Failure::new)?;
    }
    if let Some(path) = to_chrome {
        let text = match merge {
            None => chrome(timeline, &predicted, kineto_base_ns(timeline.origin_unix_ns)),
            Some(profile) => {
                let text = input::Input::read(profile)?.text;
                merge_with_profile(timeline, &predicted, &text)
                    .map_err(|error| Failure::new(format!("{profile}: {error}")))?
            }
        };
        artifact::write_text(path, &text)?;
    }
    Ok(Exit::Success)
}
