//! A run whose result is compared with the reference.

use std::fmt;
use std::time::Duration;

use msccl_collective::{DataType, Rank, Reduction};

use super::call::{OracleCall, OracleFailure, Report, Workers};
use super::executor::Executor;
use crate::number::Number;
use crate::reference;

/// A call with generated inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckedCall {
    /// The type of every element.
    pub data_type: DataType,
    /// How contributions combine.
    pub reduction: Reduction,
    /// Elements of one block.
    pub count: usize,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// What the inputs are made from; the same inputs for the same seed.
    pub seed: u64,
    /// Which threads run it.
    pub workers: Workers,
    /// How long it may take.
    pub timeout: Option<Duration>,
}

/// A run whose result is right.
#[derive(Clone, PartialEq, Debug)]
pub struct Checked {
    /// The run.
    pub report: Report,
    /// How many output elements of all ranks were compared; the others may hold anything.
    pub compared: usize,
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It did not run.
    Failed(OracleFailure),
    /// It ran, and an output is wrong.
    Wrong(ElementMismatch),
}

/// The first wrong element.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ElementMismatch {
    /// Whose output.
    pub rank: Rank,
    /// The position in the output, in elements.
    pub element: usize,
    /// What the collective promises.
    pub expected: String,
    /// What is there.
    pub found: String,
}

impl fmt::Display for ElementMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ElementMismatch { rank, element, expected, found } = self;
        write!(f, "output of {rank}, element {element}: expected {expected}, found {found}")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Failed(failure) => failure.fmt(f),
            Fault::Wrong(mismatch) => mismatch.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

/// Runs `call` and compares every promised element of every output, bit for bit.
///
/// # Errors
///
/// The call is not served or did not finish, or the first element that differs.
pub fn check(executor: &Executor, call: &CheckedCall) -> Result<Checked, Fault> {
    let CheckedCall { data_type, reduction, count, in_place, seed, workers, timeout } = *call;
    let collective = executor.collective();
    executor.fits(count, data_type).map_err(Fault::Failed)?;
    let inputs = reference::inputs(collective, data_type, reduction, count, seed);
    let expected = reference::expected(collective, data_type, reduction, count, &inputs);
    let call = OracleCall { data_type, reduction, count, in_place, inputs, workers, timeout };
    let report = executor.run(&call).map_err(Fault::Failed)?;
    for part in &expected {
        compare(part, &report.outputs[part.rank.index()], data_type).map_err(Fault::Wrong)?;
    }
    let bytes: usize = expected.iter().map(|part| part.bytes.len()).sum();
    Ok(Checked { report, compared: bytes / data_type.size_bytes() })
}

/// Compares `output`, the whole of a rank's, with what is promised about a `part` of it, bit for
/// bit.
///
/// # Errors
///
/// The first element that differs.
pub fn compare(
    part: &reference::Promised,
    output: &[u8],
    data_type: DataType,
) -> Result<(), ElementMismatch> {
    let size = data_type.size_bytes();
    let found = output[part.start * size..].chunks_exact(size);
    let mut pairs = part.bytes.chunks_exact(size).zip(found).enumerate();
    match pairs.find(|(_, (expected, found))| expected != found) {
        None => Ok(()),
        Some((offset, (expected, found))) => Err(ElementMismatch {
            rank: part.rank,
            element: part.start + offset,
            expected: Number::load(data_type, expected).to_string(),
            found: Number::load(data_type, found).to_string(),
        }),
    }
}
