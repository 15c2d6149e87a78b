//! `msccl tune`: the best candidate for every size, measured, as a tuning table.

mod estimate;
mod plan;

use std::io::Write;
use std::path::Path;

use msccl_bench::{LibraryReport, ProcessGroup, SessionObserver, Spread, tune};
use msccl_runtime::Tuning;

use crate::args::TuneArgs;
use crate::artifact;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::launch;
use crate::output::Output;

/// Measures, or reads measurements, and writes what was requested.
pub fn tune(args: &TuneArgs, output: &mut Output) -> Result<Exit> {
    if args.output.is_none() {
        output.divert_reports();
    }
    let group = match &args.from {
        Some(_) => None,
        None => launch::process_group(args.timeout, output)?,
    };
    let group = group.as_ref();
    // Before anything takes minutes.
    let kept = launch::fail_together(group, prepared(args, group))?;
    let mut data = match &args.from {
        Some(file) => read(file)?,
        None if args.estimate => launch::fail_together(group, estimate::estimated(args, output))?,
        None => measured(args, group, output)?,
    };
    // Whoever does not speak for all has no more to do.
    if !group.is_none_or(ProcessGroup::is_speaker) {
        return Ok(if data.is_good() { Exit::Success } else { Exit::Refused });
    }
    data.floor = args.floor.or(data.floor);
    if let Some(path) = &args.data {
        let text = data.to_text().map_err(|error| Failure::new(error.to_string()))?;
        artifact::write_text(path, &text)?;
    }
    let rule = plan::rule(args);
    for line in tune::report(&data, &rule) {
        output.line(line);
    }
    let is_written = write_table(args, &data, kept.as_ref(), output)?;
    if !is_written {
        output.error("nothing was measured that could serve, so there is no table");
        return Ok(Exit::Refused);
    }
    if let Some(path) = &args.svg {
        let picture = tune::picture(&data, &rule);
        let nothing = || format!("nothing was measured that {} could show", path.display());
        artifact::write_text(path, &picture.ok_or_else(|| Failure::new(nothing()))?)?;
    }
    Ok(if data.is_good() { Exit::Success } else { Exit::Refused })
}

/// What `args` request to be measured.
///
/// # Errors
///
/// They name no collective, or nothing can be measured so.
pub fn measured(
    args: &TuneArgs,
    group: Option<&ProcessGroup>,
    output: &mut Output,
) -> Result<tune::Data> {
    let nothing = || Failure::new("name a collective, such as allreduce");
    let collective = args.collective.ok_or_else(nothing)?;
    let plan = plan::plan(args, collective, group, output);
    let plan = launch::fail_together(group, plan)?;
    Ok(tune::measure(&plan, group, &mut TuneReporter { output }))
}

/// Makes sure that the speaker can write what is requested; the table whose rows stay.
fn prepared(args: &TuneArgs, group: Option<&ProcessGroup>) -> Result<Option<Tuning>> {
    if !group.is_none_or(ProcessGroup::is_speaker) {
        return Ok(None);
    }
    let kept = kept(args)?;
    let written = [&args.output, &args.data, &args.svg];
    written.into_iter().flatten().try_for_each(artifact::expect_to_write)?;
    Ok(kept)
}

/// The table whose rows stay. One that is to grow need not be there at first.
fn kept(args: &TuneArgs) -> Result<Option<Tuning>> {
    let grows = |file: &&String| args.output.as_deref() == Some(Path::new(file));
    let begins = |file: &&String| grows(file) && !Path::new(file).exists();
    let file = args.keep.as_ref().filter(|file| !begins(file));
    file.map(|file| msccl_environment::read_tuning(file)).transpose().map_err(Failure::new)
}

fn read(file: &str) -> Result<tune::Data> {
    let Input { name, text } = Input::read(file)?;
    tune::Data::parse(&text).map_err(|error| Failure::new(format!("{name}: {error}")))
}

/// Whether there is a table: one without rows would only take the place of one with.
fn write_table(
    args: &TuneArgs,
    data: &tune::Data,
    kept: Option<&Tuning>,
    output: &mut Output,
) -> Result<bool> {
    let name = args.output.as_deref().map_or("tuning table".into(), Path::to_string_lossy);
    let rule = plan::rule(args);
    let table = tune::table(data, &rule, kept, &name);
    if table.rows().is_empty() {
        return Ok(false);
    }
    let text = format!("{}{table}", tune::remarks(data, &rule, kept));
    Tuning::parse(&name, text.as_bytes()).map_err(|error| Failure::new(error.to_string()))?;
    match &args.output {
        Some(path) => artifact::write_text(path, &text)?,
        // A failure is reported at the end, by the output itself.
        None => output.made().write_all(text.as_bytes()).unwrap_or(()),
    }
    Ok(true)
}

/// Reports what happens while it happens.
struct TuneReporter<'a> {
    output: &'a mut Output,
}

impl SessionObserver for TuneReporter<'_> {
    fn line(&mut self, library: &str, rank: u32, line: &str) {
        self.output.note(format_args!("{library} r{rank}: {line}"));
    }

    fn lost(&mut self, library: &str, reason: &str) {
        self.output.error(format_args!("{library} is out: {reason}"));
    }
}

impl tune::TuneObserver for TuneReporter<'_> {
    fn begin(&mut self, libraries: &[LibraryReport]) {
        for library in libraries {
            let joined = Spread::of(&library.init_us);
            let joined = joined.map(|spread| format!(", joined in {:.1} ms", spread.max / 1e3));
            let (name, version) = (&library.name, library.version_name());
            let (joined, path) = (joined.unwrap_or_default(), library.path.display());
            self.output.note(format_args!("{name}: {version}{joined}, {path}"));
        }
    }

    fn doing(&mut self, what: &str) {
        self.output.note(what);
    }

    fn point(&mut self, point: &tune::TunePoint) {
        let ranking = point.ranking();
        let Some((best, us)) = ranking.first() else { return };
        let (tried, choice) = (point.trials.len(), &best.choice);
        self.output.note(format_args!("  {choice}: {us:.2} us, best of {tried}"));
    }

    fn fault(&mut self, choice: &str, why: &str) {
        self.output.error(format_args!("{choice} is out: {why}"));
    }
}
