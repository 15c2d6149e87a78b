//! Where in a file: the ids that the file itself uses.

use std::fmt;

/// The element a complaint is about, by the file's own ids; prints as `gpu 3, tb 1, step 4`, and as
/// `algo` where it concerns the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Locus {
    /// The `id` of the `<gpu>`.
    pub gpu: Option<u32>,
    /// The `id` of the `<tb>`.
    pub tb: Option<u32>,
    /// The position of the `<step>` in its thread block.
    pub step: Option<u32>,
}

impl fmt::Display for Locus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Locus { gpu, tb, step } = *self;
        let Some(gpu) = gpu else { return f.write_str("algo") };
        write!(f, "gpu {gpu}")?;
        if let Some(tb) = tb {
            write!(f, ", tb {tb}")?;
        }
        if let Some(step) = step {
            write!(f, ", step {step}")?;
        }
        Ok(())
    }
}
