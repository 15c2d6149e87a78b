//! `msccl show`: a program after any stage, as text or picture.

mod text;
pub mod timeline;

use std::io::Write;

use msccl_compiler::chunk;
use msccl_interchange::json;
use msccl_ir::Target;
use msccl_pages::timeline::EstimateMachine;
use msccl_topology::cluster::Cluster;

use crate::args::{Drawing, Picture, ShowArgs, Stage, TargetName};
use crate::artifact;
use crate::calibration::calibration_in;
use crate::draw::layers::{Layers, MOST_BOXES};
use crate::draw::{self, RankFilter};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Content, Input};
use crate::output::Output;
use crate::subject::{self, KnownInvalid, Program, Stages, Subject};
use crate::verdict;

/// What there is to see of a file.
enum Shown {
    Chunks(Box<chunk::ChunkDag>),
    Stages(Box<Stages>),
    Finished(Box<Subject>),
}

/// How it is to be seen.
struct View<'a> {
    args: &'a ShowArgs,
    picture: Picture,
    filter: RankFilter,
    /// The machine of estimates, if one is given.
    cluster: Option<Cluster>,
}

/// Shows the requested stage; nothing is proved.
pub fn show(args: &ShowArgs, output: &mut Output) -> Result<Exit> {
    let picture = picture(args)?;
    let shown = match load(args, output)? {
        Ok(shown) => shown,
        Err(invalid) => {
            output.divert_reports();
            let verdict = verdict::judge(Err(invalid));
            verdict::print(&verdict, output);
            return Ok(verdict::exit(&verdict));
        }
    };
    let filter = RankFilter::new(&args.rank);
    let ranks = shown.ranks();
    if let Some(missing) = filter.missing(ranks) {
        let message = format!("{}: there is no rank {missing}, only 0 to {}", args.file, ranks - 1);
        return Err(Failure::new(message));
    }
    let cluster = args.launch.cluster.cluster(output)?;
    let text = render(&shown, &View { args, picture, filter, cluster })?;
    match args.file_written() {
        // A failure is reported at the end, by the output itself.
        None => output.made().write_all(text.as_bytes()).unwrap_or(()),
        Some(path) => artifact::write_text(path, &text)?,
    }
    Ok(Exit::Success)
}

/// What is requested, by an option or by the name of the file to write.
fn picture(args: &ShowArgs) -> Result<Picture> {
    let Some(path) = args.file_written() else { return Ok(args.format.unwrap_or(Picture::Text)) };
    artifact::expect_other_than(&args.file, path)?;
    match (args.format, artifact::extension(path).as_deref()) {
        (Some(format), _) => Ok(format),
        (None, Some("txt" | "text" | "ir") | None) => Ok(Picture::Text),
        (None, Some("svg")) => Ok(Picture::Svg),
        (None, Some("json")) => Ok(Picture::Json),
        (None, Some("dot" | "gv")) => Ok(Picture::Dot),
        (None, Some(_)) => {
            Err(artifact::unknown_extension(path, ".txt, .svg, .json or .dot", "--format svg"))
        }
    }
}

fn load(
    args: &ShowArgs,
    output: &mut Output,
) -> Result<std::result::Result<Shown, Box<KnownInvalid>>> {
    let input = Input::read(&args.file)?;
    let mut warn = |warning| output.warn(warning);
    if input.content()? == Content::Program {
        let program = subject::evaluated(input, &args.launch, &mut warn)?;
        let target = args.target.unwrap_or(TargetName::Native).target();
        return Ok(of_program(program, args.stage, target));
    }
    let loaded = subject::load(input, &args.launch, args.target, &mut warn)?;
    Ok(loaded.map(|subject| Shown::Finished(Box::new(subject))))
}

fn of_program(
    program: Program,
    stage: Stage,
    target: Target,
) -> std::result::Result<Shown, Box<KnownInvalid>> {
    match stage {
        Stage::Chunk => Ok(Shown::Chunks(Box::new(program.chunks))),
        Stage::Instruction | Stage::Schedule | Stage::Timeline => {
            subject::stages(program, target).map(|stages| Shown::Stages(Box::new(stages)))
        }
    }
}

impl Shown {
    fn ranks(&self) -> u32 {
        match self {
            Shown::Chunks(chunks) => chunks.collective.ranks,
            Shown::Stages(stages) => stages.subject.algorithm.collective.ranks,
            Shown::Finished(subject) => subject.algorithm.collective.ranks,
        }
    }
}

fn render(shown: &Shown, view: &View<'_>) -> Result<String> {
    match (view.args.stage, shown) {
        (Stage::Chunk, Shown::Chunks(chunks)) => of_chunks(chunks, view),
        (Stage::Instruction, Shown::Stages(stages)) => of_instructions(stages, view),
        (Stage::Schedule, Shown::Stages(stages)) => of_schedule(&stages.subject, view),
        (Stage::Schedule, Shown::Finished(subject)) => of_schedule(subject, view),
        (Stage::Timeline, Shown::Stages(stages)) => of_times(&stages.subject, view),
        (Stage::Timeline, Shown::Finished(subject)) => of_times(subject, view),
        (Stage::Chunk | Stage::Instruction, _) | (_, Shown::Chunks(_)) => {
            Err(Failure::new(format!(
                "{}: this file holds a finished algorithm, which has no such stage; show its \
                 schedule or timeline, or give the program",
                view.args.file
            )))
        }
    }
}

fn of_chunks(chunks: &chunk::ChunkDag, view: &View<'_>) -> Result<String> {
    let View { args: _, picture, filter, cluster: _ } = view;
    let Some(drawing) = picture.drawing() else { return Ok(text::chunks(chunks, filter)) };
    let boxes = chunks.ops.iter().filter(|op| filter.shows(op.to.rank)).count();
    drawn(drawing, boxes, || Ok(draw::chunks::layers(chunks, filter)))
}

fn of_instructions(stages: &Stages, view: &View<'_>) -> Result<String> {
    let Stages { chunks, instructions: dag, subject: _ } = stages;
    let View { args: _, picture, filter, cluster: _ } = view;
    let Some(drawing) = picture.drawing() else { return Ok(text::instructions(dag, filter)) };
    let title = format!("{}: {}", chunks.name, chunks.collective);
    let shown = dag.instructions.iter().filter(|instruction| filter.shows(instruction.rank));
    drawn(drawing, shown.count(), || {
        Ok(draw::instructions::layers(title, chunks.collective.ranks, dag, filter))
    })
}

fn of_schedule(subject: &Subject, view: &View<'_>) -> Result<String> {
    let algorithm = &subject.algorithm;
    let View { args: _, picture, filter, cluster: _ } = view;
    let drawing = match picture.drawing() {
        None => return Ok(text::schedule(algorithm, filter)),
        Some(Drawing::Json) => return Ok(json::write(algorithm) + "\n"),
        Some(drawing) => drawing,
    };
    let shown = algorithm.thread_blocks().filter(|(rank, ..)| filter.shows(*rank));
    drawn(drawing, shown.map(|(_, _, block)| block.steps.len()).sum(), || {
        let levels = draw::levels::levels(algorithm).map_err(Failure::new)?;
        Ok(draw::schedule::layers(algorithm, &levels, filter))
    })
}

fn of_times(subject: &Subject, view: &View<'_>) -> Result<String> {
    let View { args, picture, filter, cluster } = view;
    let calibration = args.launch.cluster.machine.calibration.as_deref();
    let calibration = calibration.map(calibration_in).transpose()?;
    let machine = EstimateMachine { cluster: cluster.clone(), calibration };
    timeline::render(subject, machine, args.size, *picture, filter)
}

/// A picture of `boxes` boxes.
fn drawn(
    drawing: Drawing,
    boxes: usize,
    layers: impl FnOnce() -> Result<Layers>,
) -> Result<String> {
    if boxes > MOST_BOXES {
        return Err(Failure::new(format!(
            "a picture of {boxes} boxes helps nobody (at most {MOST_BOXES}); choose ranks with \
             --rank, or fewer ranks with --ranks"
        )));
    }
    let layers = layers()?;
    Ok(match drawing {
        Drawing::Svg => draw::svg::layers(&layers),
        Drawing::Dot => draw::dot::layers(&layers),
        Drawing::Json => draw::json::layers(&layers),
    })
}
