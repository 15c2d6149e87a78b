//! `msccl show`: a program after any stage, as text or picture.

mod text;
mod timeline;

use std::io::Write;

use msccl_compiler::chunk;
use msccl_interchange::json;
use msccl_ir::Target;

use crate::args::{Picture, ShowArgs, Stage, TargetName};
use crate::artifact;
use crate::draw::layers::{Layers, MOST_BOXES};
use crate::draw::{self, RankFilter};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::{Content, Input};
use crate::output::Output;
use crate::subject::{self, Doubt, Program, Stages, Subject};
use crate::verdict;

/// What there is to see of a file.
enum Shown {
    Chunks(chunk::Dag),
    Stages(Box<Stages>),
    Finished(Box<Subject>),
}

/// Shows the stage asked for; nothing is proved.
pub fn show(args: &ShowArgs, output: &mut Output) -> Result<Exit> {
    let shown = match load(args, output)? {
        Ok(shown) => shown,
        Err(doubt) => {
            output.divert_reports();
            let verdict = verdict::judge(Err(doubt));
            verdict.print(output);
            return Ok(verdict.exit());
        }
    };
    let filter = RankFilter::new(&args.rank);
    let ranks = shown.ranks();
    if let Some(missing) = filter.missing(ranks) {
        let message = format!("{}: there is no rank {missing}, only 0 to {}", args.file, ranks - 1);
        return Err(Failure::new(message));
    }
    let text = render(&shown, args, &filter)?;
    match &args.output {
        // A failure is told at the end, by the output itself.
        None => output.made().write_all(text.as_bytes()).unwrap_or(()),
        Some(path) => {
            let written = artifact::write(path, |out| {
                out.write_all(text.as_bytes()).map_err(|error| error.to_string())
            });
            written.map_err(Failure::new)?;
        }
    }
    Ok(Exit::Success)
}

fn load(args: &ShowArgs, output: &mut Output) -> Result<std::result::Result<Shown, Doubt>> {
    let input = Input::read(&args.file)?;
    if input.content() == Content::Program {
        let program = subject::evaluated(input, &args.launch)?;
        let target = args.target.unwrap_or(TargetName::Native).target();
        return Ok(of_program(program, args.stage, target));
    }
    let mut warn = |warning| output.warn(warning);
    let loaded = subject::load(input, &args.launch, args.target, &mut warn)?;
    Ok(loaded.map(|subject| Shown::Finished(Box::new(subject))))
}

fn of_program(program: Program, stage: Stage, target: Target) -> std::result::Result<Shown, Doubt> {
    match stage {
        Stage::Chunk => Ok(Shown::Chunks(program.chunks)),
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

fn render(shown: &Shown, args: &ShowArgs, filter: &RankFilter) -> Result<String> {
    match (args.stage, shown) {
        (Stage::Chunk, Shown::Chunks(chunks)) => match args.format {
            Picture::Text => Ok(text::chunks(chunks, filter)),
            picture => drawn(picture, chunks.ops.len(), || draw::chunks::layers(chunks, filter)),
        },
        (Stage::Instruction, Shown::Stages(stages)) => {
            let dag = &stages.instructions;
            let (collective, name) = (&stages.chunks.collective, &stages.chunks.name);
            let title = format!("{name}: {collective}");
            match args.format {
                Picture::Text => Ok(text::instructions(dag, filter)),
                picture => drawn(picture, dag.instructions.len(), || {
                    draw::instructions::layers(title, collective.ranks, dag, filter)
                }),
            }
        }
        (Stage::Schedule, Shown::Stages(stages)) => schedule(&stages.subject, args, filter),
        (Stage::Schedule, Shown::Finished(subject)) => schedule(subject, args, filter),
        (Stage::Timeline, Shown::Stages(stages)) => at_times(&stages.subject, args, filter),
        (Stage::Timeline, Shown::Finished(subject)) => at_times(subject, args, filter),
        _ => Err(Failure::new(format!(
            "{}: this file holds a finished algorithm, which has no such stage; show its schedule \
             or timeline, or give the program",
            args.file
        ))),
    }
}

fn schedule(subject: &Subject, args: &ShowArgs, filter: &RankFilter) -> Result<String> {
    let algorithm = &subject.algorithm;
    match args.format {
        Picture::Text => Ok(text::schedule(algorithm, filter)),
        Picture::Json => Ok(json::write(algorithm) + "\n"),
        picture => {
            let levels = draw::levels::levels(algorithm).map_err(Failure::new)?;
            drawn(picture, levels.steps.len(), || {
                draw::schedule::layers(algorithm, &levels, filter)
            })
        }
    }
}

fn at_times(subject: &Subject, args: &ShowArgs, filter: &RankFilter) -> Result<String> {
    timeline::render(subject, args.size, args.format, filter).map_err(Failure::new)
}

/// A picture of `boxes` boxes before filtering.
fn drawn(picture: Picture, boxes: usize, layers: impl FnOnce() -> Layers) -> Result<String> {
    let layers = layers();
    if layers.boxes.len() > MOST_BOXES {
        return Err(Failure::new(format!(
            "a picture of {boxes} boxes helps nobody (the limit is {MOST_BOXES}); choose ranks with \
             --rank, or fewer ranks with --ranks"
        )));
    }
    Ok(match picture {
        Picture::Text | Picture::Svg => draw::svg::layers(&layers),
        Picture::Dot => draw::dot::layers(&layers),
        Picture::Json => draw::json::layers(&layers),
    })
}
