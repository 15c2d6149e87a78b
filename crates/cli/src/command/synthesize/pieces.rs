//! Which plan in which layout serves calls from where to where.

use msccl_collective::SizeRange;
use msccl_synthesize::Layout;

use super::layouts::{Best, Search};
use crate::failure::Result;
use crate::output::Output;
use crate::progress::Progress;
use crate::size::ByteSize;

/// What takes up to so many times as long as the best goes on to serve.
const ALIKE: f64 = 1.03;

/// Limits between two programs are found up to this factor.
const NEAR: f64 = 1.1;

/// A program for some sizes.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub best: Best,
    /// The size for which it was chosen: the smallest of those that it serves.
    pub size: ByteSize,
    /// The calls that it is for.
    pub sizes: SizeRange,
}

impl Piece {
    /// Its layout, with the sizes that it is for.
    pub fn layout(&self) -> Layout {
        Layout { sizes: self.sizes, ..self.best.timed.layout }
    }
}

/// What is fastest at each of `sizes`, in rising order, or nearly so: a piece goes on to larger
/// sizes while another one would gain little. Between two pieces the limit is where both are as
/// fast.
///
/// # Errors
///
/// Nothing serves one of the sizes.
pub fn pieces(
    search: &mut Search<'_>,
    mut sizes: Vec<ByteSize>,
    progress: &Progress,
    output: &mut Output,
) -> Result<Vec<Piece>> {
    sizes.sort_unstable();
    sizes.dedup();
    let mut pieces: Vec<Piece> = Vec::new();
    for size in sizes {
        progress.now(format!("estimating layouts for {size}"));
        let best = search.best(size, output)?;
        let before = pieces.last().map(|last| last.best.timed);
        let before_us = before.and_then(|before| search.us_at(&before, size, output));
        if before_us.is_none_or(|us| us > best.timed.us * ALIKE) {
            pieces.push(Piece { best, size, sizes: SizeRange::ALL });
        }
    }
    for upper in 1..pieces.len() {
        let limit = limit(search, &pieces[upper - 1], &pieces[upper], output);
        pieces[upper - 1].sizes.max_bytes = Some(limit.0.saturating_sub(1));
        pieces[upper].sizes.min_bytes = limit.0;
    }
    Ok(pieces)
}

/// The least size at which `upper` is faster than `lower`, nearly.
fn limit(search: &mut Search<'_>, lower: &Piece, upper: &Piece, output: &mut Output) -> ByteSize {
    let lower_end = lower.size.0.max(1);
    let (mut served, mut beyond) = (ByteSize(lower_end), upper.size);
    while beyond.0 as f64 > served.0 as f64 * NEAR && !search.is_over() {
        let middle = (served.0 as f64 * beyond.0 as f64).sqrt() as u64;
        let middle = ByteSize(middle.next_multiple_of(1024));
        if middle >= beyond {
            break;
        }
        let lower_us = search.us_at(&lower.best.timed, middle, output);
        let upper_us = search.us_at(&upper.best.timed, middle, output);
        match (lower_us, upper_us) {
            (Some(lower), Some(upper)) if lower <= upper => served = middle,
            (Some(_), None) => served = middle,
            _ => beyond = middle,
        }
    }
    beyond
}
