//! Averages, with numbers for which a division or a scaling cannot be moved, left out or repeated.

use std::collections::BTreeSet;

use msccl_ir::StepRef;
use msccl_verify::RawSources;

use super::executor::Value;

/// What a call does beside adding up.
pub enum Averaging {
    None,
    /// These steps divide their sums, all chunks.
    Divides(BTreeSet<StepRef>),
    /// These sources are scaled before they are added.
    Scales(RawSources),
}

impl Averaging {
    /// What a sum takes of `value`, which it has loaded as source number `source` of the step.
    pub fn load(&self, at: StepRef, source: usize, value: Value) -> Value {
        match self {
            Averaging::Scales(raw) if raw.contains(at, source) => scaled(value),
            Averaging::None | Averaging::Divides(_) | Averaging::Scales(_) => value,
        }
    }

    /// What the step stores and sends of a sum.
    pub fn store(&self, at: StepRef, sum: Value) -> Value {
        match self {
            Averaging::Divides(steps) if steps.contains(&at) => divided(sum),
            Averaging::None | Averaging::Divides(_) | Averaging::Scales(_) => sum,
        }
    }

    /// The average by definition: a single contribution is itself, and a sum is divided once, or
    /// each of its contributions is scaled once.
    pub fn of(&self, contributions: &[Value]) -> Value {
        let sum = |all: &mut dyn Iterator<Item = Value>| all.fold(0, Value::wrapping_add);
        let mut all = contributions.iter().copied();
        match self {
            Averaging::Scales(_) if all.len() > 1 => sum(&mut all.map(scaled)),
            Averaging::Divides(_) if all.len() > 1 => divided(sum(&mut all)),
            Averaging::None | Averaging::Divides(_) | Averaging::Scales(_) => sum(&mut all),
        }
    }
}

fn divided(sum: Value) -> Value {
    (sum ^ 0x6a09_e667_f3bc_c908).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
}

fn scaled(value: Value) -> Value {
    (value ^ 0x3c6e_f372_fe94_f82b).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(23)
}
