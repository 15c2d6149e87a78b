//! Which communicators live in this process, by how many ranks.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A rank of a communicator, for as long as this lives.
pub(super) struct DeviceUsers {
    user: DeviceUser,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct DeviceUser {
    communicator: u64,
    device: u32,
}

/// All ranks.
static ALL: Mutex<Vec<DeviceUser>> = Mutex::new(Vec::new());

fn all() -> MutexGuard<'static, Vec<DeviceUser>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DeviceUsers {
    /// From now on another rank of the communicator lives here, on that device.
    pub fn begin(communicator: u64, device: u32) -> Self {
        let user = DeviceUser { communicator, device };
        all().push(user);
        Self { user }
    }

    /// Whether the driver may wait for kernels of this process and keep the process waiting: there
    /// is nothing else for which they wait, since the process is one rank, or has no other
    /// communicator.
    pub fn may_wait(&self) -> bool {
        let all = all();
        let siblings = self.siblings(&all);
        siblings == 1 || siblings == all.len()
    }

    /// Whether the process is one rank: none that it keeps waiting lives here.
    pub fn is_one_rank(&self) -> bool {
        self.siblings(&all()) == 1
    }

    /// Ranks of the communicator among `all`, this one among them.
    fn siblings(&self, all: &[DeviceUser]) -> usize {
        all.iter().filter(|of| of.communicator == self.user.communicator).count()
    }

    /// Whether another rank of the communicator lives here on the same device.
    pub fn shares_device(&self) -> bool {
        all().iter().filter(|of| **of == self.user).count() > 1
    }
}

impl Drop for DeviceUsers {
    fn drop(&mut self) {
        let mut all = all();
        let own = all.iter().position(|of| *of == self.user);
        own.map(|own| all.swap_remove(own));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_ranks_wait_only_while_there_is_nothing_else() {
        let (one, other) = (DeviceUsers::begin(1, 0), DeviceUsers::begin(1, 1));
        assert!(one.may_wait() && other.may_wait());
        assert!(!one.shares_device() && !other.shares_device());
        let unrelated = DeviceUsers::begin(2, 0);
        assert!(!one.may_wait() && unrelated.may_wait());
        assert!(!one.shares_device(), "that is another communicator");
        drop(unrelated);
        assert!(one.may_wait());
        assert!(!one.is_one_rank() && DeviceUsers::begin(3, 0).is_one_rank());
        let neighbour = DeviceUsers::begin(1, 0);
        assert!(one.shares_device() && neighbour.shares_device() && !other.shares_device());
    }
}
