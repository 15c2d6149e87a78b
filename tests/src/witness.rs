//! Running what was proved: the second witness.

use std::time::Duration;

use msccl_collective::{DataType, Reduction};
use msccl_runtime::oracle::{CheckedCall, Executor, Workers, check};
use msccl_verify::Verified;

/// Counts that a chunk number rarely divides, and none at all.
pub const COUNTS: [usize; 4] = [0, 1, 13, 96];

/// Executes `verified` for every placement it serves and every count of `counts`, and compares with
/// the reference. The story of the first difference, if there is one.
pub fn execute(verified: &Verified, counts: &[usize]) -> Result<(), String> {
    let executor = Executor::new(verified).map_err(|error| error.to_string())?;
    let placement = verified.algorithm().placement;
    let served = [(true, placement.serves_in_place()), (false, placement.serves_out_of_place())];
    for in_place in served.into_iter().filter_map(|(place, served)| served.then_some(place)) {
        for &count in counts {
            let trial = CheckedCall {
                data_type: DataType::I32,
                reduction: Reduction::Sum,
                count,
                in_place,
                seed: 1,
                workers: Workers::Available,
                timeout: Some(Duration::from_secs(60)),
            };
            check(&executor, &trial)
                .map_err(|fault| format!("{count} elements, in place {in_place}: {fault}"))?;
        }
    }
    Ok(())
}
