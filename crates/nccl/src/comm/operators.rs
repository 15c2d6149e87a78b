//! Operators that a caller made: sums of scaled contributions.
//!
//! An operator belongs to one communicator; no two in a process have the same number, so that one
//! of another communicator is recognised. A call keeps what it needs of its operator, which may be
//! destroyed while the call is still in a group.

use std::collections::hash_map::Entry;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use msccl_collective::DataType;
use msccl_runtime::{Combine, Scalar};
use rustc_hash::FxHashMap;

use crate::abi::constant::{self, FIRST_OPERATOR};
use crate::fault::Fault;

/// A sum of contributions, each multiplied by a scalar of one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operator {
    /// By what.
    pub scalar: Scalar,
    /// Its type, and that of every call that uses it.
    pub data_type: DataType,
}

/// The operators of one communicator.
#[derive(Default)]
pub struct Operators(Mutex<FxHashMap<c_int, Operator>>);

/// Counts the operators of the process.
static MADE: AtomicU32 = AtomicU32::new(0);

/// How many numbers there are for operators.
const NUMBERS: u32 = (c_int::MAX - FIRST_OPERATOR) as u32;

impl Operators {
    /// Takes `operator` up; its number.
    pub fn create(&self, operator: Operator) -> c_int {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let made = MADE.fetch_add(1, Ordering::Relaxed) % NUMBERS;
            let number = FIRST_OPERATOR + made.cast_signed();
            if let Entry::Vacant(place) = known.entry(number) {
                place.insert(operator);
                return number;
            }
        }
    }

    /// Forgets the operator `number`.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn destroy(&self, number: c_int) -> Result<(), Fault> {
        if (0..FIRST_OPERATOR).contains(&number) {
            let text = format!("RedOpDestroy : operator {number} is a builtin of NCCL");
            return Err(Fault::argument(text));
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.remove(&number);
        found.map(|_| ()).ok_or_else(|| unknown("RedOpDestroy", number))
    }

    /// What the number `number` in a call of `operation` on elements of `data_type` asks for.
    ///
    /// # Errors
    ///
    /// There is no such operator, or it is for another type.
    pub fn combine(
        &self,
        operation: &str,
        number: c_int,
        data_type: DataType,
    ) -> Result<Combine, Fault> {
        if let Some(reduction) = constant::reduction(number) {
            return Ok(Combine::Plain(reduction));
        }
        if number < 0 {
            let text = format!("{operation} : invalid reduction operation {number}");
            return Err(Fault::argument(text));
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let operator = known.get(&number).ok_or_else(|| unknown(operation, number))?;
        if operator.data_type != data_type {
            let made = operator.data_type;
            return Err(Fault::argument(format!(
                "{operation} : reduction operation {number} was made for {made}, and the call is \
                 of {data_type}"
            )));
        }
        Ok(Combine::Scaled(operator.scalar))
    }
}

fn unknown(operation: &str, number: c_int) -> Fault {
    let text = format!("{operation} : reduction operation {number} unknown to this communicator");
    Fault::argument(text)
}

#[cfg(test)]
mod tests {
    use msccl_collective::Reduction;

    use super::*;

    const HALF: Operator =
        Operator { scalar: Scalar::Immediate(0x3f00_0000), data_type: DataType::F32 };

    #[test]
    fn operators_live_from_create_to_destroy() {
        let operators = Operators::default();
        let number = operators.create(HALF);
        assert!(number >= FIRST_OPERATOR);
        let combine = |data_type| operators.combine("AllReduce", number, data_type);
        assert_eq!(combine(DataType::F32), Ok(Combine::Scaled(HALF.scalar)));
        assert!(combine(DataType::F16).unwrap_err().text.contains("made for f32"));
        assert_eq!(operators.destroy(number), Ok(()));
        assert!(combine(DataType::F32).unwrap_err().text.contains("unknown to this communicator"));
        assert!(operators.destroy(number).is_err());
    }

    #[test]
    fn operators_of_another_communicator_are_unknown() {
        let (mine, theirs) = (Operators::default(), Operators::default());
        let number = theirs.create(HALF);
        assert!(mine.combine("Reduce", number, DataType::F32).is_err());
        assert!(mine.destroy(number).is_err());
        assert_ne!(mine.create(HALF), number);
    }

    #[test]
    fn built_in_ones_are_always_there() {
        let operators = Operators::default();
        let max = operators.combine("AllReduce", 2, DataType::I8);
        assert_eq!(max, Ok(Combine::Plain(Reduction::Max)));
        assert!(operators.destroy(2).unwrap_err().text.contains("builtin"));
        assert!(operators.combine("AllReduce", -1, DataType::I8).is_err());
    }
}
