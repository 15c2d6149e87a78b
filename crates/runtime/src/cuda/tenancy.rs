//! Which communicators live in this process, by how many ranks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A rank of a communicator, for as long as this lives.
pub(super) struct Tenancy {
    communicator: u64,
}

/// The communicators of all ranks.
static ALL: Mutex<Vec<u64>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<u64>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tenancy {
    /// From now on another rank of the communicator lives here.
    pub fn begin(communicator: u64) -> Self {
        all().push(communicator);
        Self { communicator }
    }

    /// Whether the driver may wait for kernels of this process and keep the process waiting: there is nothing else for which
    /// they wait, since the process is one rank, or has no other communicator.
    pub fn may_wait(&self) -> bool {
        let all = all();
        let kin = all.iter().filter(|of| **of == self.communicator).count();
        kin == 1 || kin == all.len()
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        let mut all = all();
        let own = all.iter().position(|of| *of == self.communicator);
        own.map(|own| all.swap_remove(own));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_ranks_wait_only_while_there_is_nothing_else() {
        let (one, other) = (Tenancy::begin(1), Tenancy::begin(1));
        assert!(one.may_wait() && other.may_wait());
        let stranger = Tenancy::begin(2);
        assert!(!one.may_wait() && stranger.may_wait());
        drop(stranger);
        assert!(one.may_wait());
    }
}
