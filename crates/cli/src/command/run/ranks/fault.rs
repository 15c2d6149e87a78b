//! What can go wrong on a rank, and which of many faults to report.

use std::fmt;

use msccl_collective::Rank;
use msccl_runtime::oracle::ElementMismatch;
use msccl_runtime::{Error, ErrorKind};

/// What a rank did, or why it could not.
pub type Tried<T> = Result<T, Fault>;

/// Why a trial failed.
#[derive(Debug)]
pub enum Fault {
    /// A rank could not do its part.
    Rank(Rank, Error),
    /// An output is wrong.
    Wrong(ElementMismatch),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Rank(rank, error) => write!(f, "{rank}: {error}"),
            Fault::Wrong(mismatch) => mismatch.fmt(f),
        }
    }
}

impl Fault {
    /// Whether it is but a consequence of what befell another rank.
    pub fn is_echo(&self) -> bool {
        match self {
            Fault::Rank(_, error) => error.kind() == ErrorKind::Remote,
            Fault::Wrong(_) => false,
        }
    }
}

/// All results, or the first fault; one that another rank caused only if there is no other.
pub fn all_or_first<T>(results: Vec<Tried<T>>) -> Tried<Vec<T>> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for result in results {
        match result {
            Ok(value) => good.push(value),
            Err(fault) => bad.push(fault),
        }
    }
    match bad.into_iter().min_by_key(Fault::is_echo) {
        Some(fault) => Err(fault),
        None => Ok(good),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_reported_before_their_consequences() {
        let failed = |rank, kind| Err(Fault::Rank(Rank(rank), Error::new(kind, "it failed")));
        let check = |results: Vec<Tried<u32>>, expected: Result<Vec<u32>, &str>| {
            let found = all_or_first(results).map_err(|fault| fault.to_string());
            assert_eq!(found, expected.map_err(str::to_owned));
        };
        check(vec![Ok(1), Ok(2)], Ok(vec![1, 2]));
        let (remote, cuda) = (ErrorKind::Remote, ErrorKind::Cuda);
        check(vec![Ok(1), failed(1, remote), failed(2, cuda)], Err("r2: it failed"));
        check(vec![failed(0, remote), failed(1, remote)], Err("r0: it failed"));
    }
}
