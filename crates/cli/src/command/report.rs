//! `msccl report`: everything known of one algorithm in one page.

use std::io::Write;
use std::path::Path;

use msccl_pages::figures::usual_sizes;
use msccl_pages::page::{PageRequest, PictureLimits, html};
use msccl_pages::study::Study;
use msccl_pages::timeline::{EstimateMachine, usual_size};

use crate::args::{PageArgs, TargetName};
use crate::artifact;
use crate::calibration::calibration_in;
use crate::cluster::steps_on;
use crate::diagnose::Warning;
use crate::exit::Exit;
use crate::failure::Result;
use crate::input::{Content, Input};
use crate::loader::canonical_name;
use crate::output::Output;
use crate::progress::Progress;
use crate::subject;
use crate::verdict::{self, Verdict};

/// Writes the page.
pub fn report(args: &PageArgs, output: &mut Output) -> Result<Exit> {
    if let Some(path) = args.file_written() {
        artifact::expect_other_than(&args.file, path)?;
    } else {
        output.divert_reports();
    }
    let machine = machine(args, output)?;
    let progress = Progress::start(format!("proving {}", args.file), output.is_quiet());
    let mut warnings = Vec::new();
    let study = study(args, &machine, &mut |warning| warnings.push(warning))?;
    progress.now("estimating");
    let page = html(&study, &warnings, &request(args, &study, machine));
    drop(progress);
    match args.file_written() {
        // A failure is reported at the end, by the output itself.
        None => output.made().write_all(page.as_bytes()).unwrap_or(()),
        Some(path) => artifact::write_text(path, &page)?,
    }
    match args.file_written() {
        Some(path) => {
            verdict::print(&study.verdict, output);
            output.detail(format_args!("written  {path}"));
        }
        None if matches!(study.verdict, Verdict::Refused(_)) => {
            verdict::print(&study.verdict, output);
        }
        None => {}
    }
    Ok(verdict::exit(&study.verdict))
}

fn machine(args: &PageArgs, output: &mut Output) -> Result<EstimateMachine> {
    let cluster = args.launch.cluster.cluster(output)?;
    let calibration = args.launch.cluster.machine.calibration.as_deref();
    Ok(EstimateMachine { cluster, calibration: calibration.map(calibration_in).transpose()? })
}

fn study(
    args: &PageArgs,
    machine: &EstimateMachine,
    warn: &mut dyn FnMut(Warning),
) -> Result<Study> {
    let input = Input::read(&args.file)?;
    let text = input.text.clone();
    if input.content()? == Content::Program {
        let source_name = canonical_name(Path::new(&input.name));
        let program = subject::evaluated(input, &args.launch, warn)?;
        let target = args.target.unwrap_or(TargetName::Native).target();
        return Ok(Study::of_program(text, source_name, program, target));
    }
    let launch = match &machine.cluster {
        Some(cluster) => steps_on(cluster, &args.launch),
        None => args.launch.clone(),
    };
    Ok(Study::of_steps(text, subject::load(input, &launch, args.target, warn)?))
}

fn request(args: &PageArgs, study: &Study, machine: EstimateMachine) -> PageRequest {
    let sizes = if args.sizes.is_empty() { usual_sizes() } else { args.sizes.clone() };
    let usual = || study.algorithm.as_ref().map(usual_size).unwrap_or_default();
    let timeline = args.size.unwrap_or_else(usual);
    PageRequest { machine, sizes, timeline, limits: PictureLimits::default() }
}
