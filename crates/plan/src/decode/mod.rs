//! From words to a [`Program`]: every word is checked, and none can cause a panic.
//!
//! The encoding is canonical: the words that decode are exactly those that [`encode`] gives.
//! Decoding therefore reads what it needs, checks what a reader of the program relies on (indices
//! in bounds, shapes that fit opcodes), and compares all words with the encoding of what it read.

mod head;
mod steps;
mod tables;
mod words;

use std::fmt;

use head::decode_header;
use steps::decode_steps;
use tables::{Tables, decode_tables};
use words::{Words, corrupt};

use crate::encode;
use crate::layout::{self, header};
use crate::program::{Program, ThreadBlock, words_of};
use crate::shape;

/// Words that no program encodes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt {
    /// The first word found wrong.
    pub word: usize,
    /// What was expected there, and what was found.
    pub message: String,
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan word {}: {}", self.word, self.message)
    }
}

impl std::error::Error for Corrupt {}

/// The program that encodes to `words`.
///
/// # Errors
///
/// The first word that is wrong, and why.
pub fn decode(words: &[u32]) -> Result<Program, Corrupt> {
    let words = Words(words);
    words.expect(header::MAGIC as usize, "the magic number", layout::MAGIC)?;
    words.expect(header::VERSION as usize, "the version", layout::VERSION)?;
    let total = u32::try_from(words.0.len()).unwrap_or(u32::MAX);
    words.expect(header::TOTAL as usize, "the number of words", total)?;

    let mut program = decode_header(words)?;
    let tables = decode_tables(words, &mut program)?;
    let mut cursor = tables.first_step;
    for tb in 0..tables.steps.len() {
        program.thread_blocks[tb].steps = decode_steps(words, &program, &tables, tb, &mut cursor)?;
    }
    check_signals(&program, &tables)?;
    check_canonical(words, &program)?;
    Ok(program)
}

/// A step is flagged as signalling exactly if some step waits for it.
fn check_signals(program: &Program, tables: &Tables) -> Result<(), Corrupt> {
    let awaited = shape::awaited(&program.thread_blocks);
    let mut awaited = awaited.into_iter().flatten();
    let mut at = tables.first_step;
    for bundle in program.thread_blocks.iter().flat_map(ThreadBlock::bundles) {
        for (step, awaited) in bundle.iter().zip(&mut awaited) {
            if step.signals != awaited {
                let message = format!("expected signal flag {awaited}, found {}", step.signals);
                return Err(corrupt(at, message));
            }
        }
        at += words_of(bundle);
    }
    Ok(())
}

fn check_canonical(words: Words<'_>, program: &Program) -> Result<(), Corrupt> {
    let canonical = encode(program).map_err(|error| corrupt(0, error.to_string()))?;
    let differing = words.0.iter().zip(&canonical).position(|(found, expected)| found != expected);
    if let Some(at) = differing {
        let (found, expected) = (words.0[at], canonical[at]);
        return Err(corrupt(at, format!("expected {expected:#x}, found {found:#x}")));
    }
    if words.0.len() != canonical.len() {
        let message = format!("expected {} words, found {}", canonical.len(), words.0.len());
        return Err(corrupt(canonical.len().min(words.0.len()), message));
    }
    Ok(())
}
