//! What is traced.

use msccl_ir::Algorithm;

use crate::cut::Cut;

/// Bytes of a credit. Nothing would do, but ASTRA-sim has no empty messages.
pub const CREDIT_BYTES: u64 = 1;

/// What is traced. A trace holds for one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call {
    /// Bytes of the largest buffer of any rank.
    pub bytes: u64,
    /// What one thread block copies or reduces, in bytes/µs, for each operand of a step; `None` if
    /// that takes no time. One GB/s is 1000 bytes/µs.
    pub tb_bytes_per_us: Option<f64>,
}

/// A call of an algorithm on links of a target.
pub(crate) struct Traced<'a> {
    pub algorithm: &'a Algorithm,
    pub call: Call,
    pub cut: Cut,
    /// Messages that a link holds.
    pub depth: u64,
    pub channels: u64,
}
