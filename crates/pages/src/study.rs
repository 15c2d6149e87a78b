//! A file, with everything that the stages made of it.

use msccl_compiler::chunk::ChunkDag;
use msccl_compiler::compile_chunks;
use msccl_ir::{Algorithm, Target};

use crate::program::{Program, compiled};
use crate::subject::Loaded;
use crate::verdict::{Verdict, judge};

/// A text, the algorithm in it, and what the verifier says of it.
pub struct Study {
    /// The text.
    pub text: String,
    /// The name of the text in diagnostics.
    pub source_name: String,
    /// What moves where, if it is a program.
    pub chunks: Option<ChunkDag>,
    /// The schedule; of one that breaks its promise already before it is scheduled, what the
    /// compiler makes of it all the same. `None` if there is none.
    pub algorithm: Option<Algorithm>,
    /// What would run it.
    pub target: Target,
    /// The verdict.
    pub verdict: Verdict,
}

impl Study {
    /// Compiles `program`, whose principal text is `text`, and has it judged.
    pub fn of_program(text: String, source_name: String, program: Program, target: Target) -> Self {
        let chunks = program.chunks.clone();
        let target = target.on_nodes(chunks.per_node);
        let loaded = compiled(program, target.clone());
        let algorithm = match &loaded {
            Ok(subject) => Some(subject.algorithm.clone()),
            Err(_) => {
                let compiled = compile_chunks(chunks.clone(), &target);
                compiled.ok().map(|compiled| compiled.schedule.algorithm)
            }
        };
        let verdict = judge(loaded);
        Self { text, source_name, chunks: Some(chunks), algorithm, target, verdict }
    }

    /// Has a file of steps judged.
    pub fn of_steps(text: String, loaded: Loaded) -> Self {
        let (source_name, target, algorithm) = match &loaded {
            Ok(subject) => {
                (subject.file.clone(), subject.target.clone(), Some(subject.algorithm.clone()))
            }
            Err(invalid) => (invalid.file.clone(), invalid.target.clone(), None),
        };
        Self { text, source_name, chunks: None, algorithm, target, verdict: judge(loaded) }
    }

    /// The name of the file, as messages show it.
    pub fn file(&self) -> &str {
        match &self.verdict {
            Verdict::Proved(proved) => &proved.file,
            Verdict::Refused(refused) => &refused.file,
        }
    }
}
