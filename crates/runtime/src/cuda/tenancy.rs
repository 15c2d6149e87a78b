//! Which communicators live in this process, by how many ranks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A rank of a communicator, for as long as this lives.
pub(super) struct Tenancy {
    tenant: Tenant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Tenant {
    communicator: u64,
    device: u32,
}

/// All ranks.
static ALL: Mutex<Vec<Tenant>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<Tenant>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Tenancy {
    /// From now on another rank of the communicator lives here, on that device.
    pub fn begin(communicator: u64, device: u32) -> Self {
        let tenant = Tenant { communicator, device };
        all().push(tenant);
        Self { tenant }
    }

    /// Whether the driver may wait for kernels of this process and keep the process waiting: there is nothing else for which
    /// they wait, since the process is one rank, or has no other communicator.
    pub fn may_wait(&self) -> bool {
        let all = all();
        let kin = all.iter().filter(|of| of.communicator == self.tenant.communicator).count();
        kin == 1 || kin == all.len()
    }

    /// Whether another rank of the communicator lives here on the same device.
    pub fn shares_device(&self) -> bool {
        all().iter().filter(|of| **of == self.tenant).count() > 1
    }
}

impl Drop for Tenancy {
    fn drop(&mut self) {
        let mut all = all();
        let own = all.iter().position(|of| *of == self.tenant);
        own.map(|own| all.swap_remove(own));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_ranks_wait_only_while_there_is_nothing_else() {
        let (one, other) = (Tenancy::begin(1, 0), Tenancy::begin(1, 1));
        assert!(one.may_wait() && other.may_wait());
        assert!(!one.shares_device() && !other.shares_device());
        let stranger = Tenancy::begin(2, 0);
        assert!(!one.may_wait() && stranger.may_wait());
        assert!(!one.shares_device(), "that is another communicator");
        drop(stranger);
        assert!(one.may_wait());
        let neighbour = Tenancy::begin(1, 0);
        assert!(one.shares_device() && neighbour.shares_device() && !other.shares_device());
    }
}
