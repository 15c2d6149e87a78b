//! From a file to an algorithm: the one path that all commands which read one share.

mod program;
mod steps;

pub use msccl_pages::program::{Program, Stages, stages};
use msccl_pages::steps::{Nodes, from_json, from_text, from_xml};
pub use msccl_pages::subject::{KnownInvalid, Loaded, Subject};

use crate::args::{LaunchArgs, TargetName};
use crate::diagnose::Warning;
use crate::failure::Result;
use crate::input::{Content, Input};

pub use program::evaluated;

/// Reads `input` and makes an algorithm of it. Warnings about the text go to `warn`.
///
/// # Errors
///
/// The file is not what its first character claims, or options do not fit it.
pub fn load(
    input: Input,
    launch: &LaunchArgs,
    target: Option<TargetName>,
    warn: &mut dyn FnMut(Warning),
) -> Result<Loaded> {
    let runtime = target.map(TargetName::runtime);
    let steps = match input.content()? {
        Content::Program => {
            let target = target.unwrap_or(TargetName::Native).target();
            let program = evaluated(input, launch, warn)?;
            return Ok(msccl_pages::program::compiled(program, target));
        }
        Content::Xml => {
            let nodes = if launch.per_node.is_some() { Nodes::Given } else { Nodes::Supposed };
            match from_xml(input.name, input.text, runtime, nodes, warn)? {
                Ok(steps) => steps,
                Err(invalid) => return Ok(Err(invalid)),
            }
        }
        Content::Json => from_json(input.name, &input.text, runtime)?,
        Content::Text => from_text(input.name, &input.text, runtime)?,
    };
    steps::adapted(steps, launch).map(Ok)
}
