//! The hosts that ranks are on, or as if.

use msccl_runtime::Settings;

/// Hosts with neighbouring ranks, as many on each as can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hosts {
    /// How many.
    pub count: u32,
    /// RDMA devices of a test bed, `rxe0` and so on, that the hosts divide among themselves. With
    /// none, nothing is said about devices.
    pub devices: u32,
}

impl Hosts {
    /// The host that the ranks are really on.
    pub const ONE: Self = Self::pretended(1);

    /// So many, each with whatever devices there are.
    pub const fn pretended(count: u32) -> Self {
        Self { count, devices: 0 }
    }

    /// Which host rank number `rank` of `ranks` is on.
    pub fn of(self, rank: u32, ranks: u32) -> u32 {
        rank * self.count / ranks
    }

    /// The devices of a host, as `NCCL_IB_HCA` has them: its own, or one that it shares if there
    /// are too few.
    pub fn devices_of(self, host: u32) -> Option<String> {
        if self.devices == 0 {
            return None;
        }
        let each = (self.devices / self.count).max(1);
        let own = host * each..(host + 1) * each;
        let names: Vec<_> = own.map(|device| format!("rxe{}", device % self.devices)).collect();
        Some(format!("={}", names.join(",")))
    }

    /// Lets rank number `rank` of `ranks` believe in its host.
    pub fn settle(self, settings: &mut Settings, rank: u32, ranks: u32) {
        if self.count < 2 {
            return;
        }
        let host = self.of(rank, ranks);
        settings.fabric.host = Some(format!("host{host}"));
        if let Some(devices) = self.devices_of(host) {
            settings.proxy.rdma.hca = Some(devices);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_divide_ranks_and_devices() {
        let hosts = Hosts { count: 2, devices: 4 };
        assert_eq!((0..5).map(|rank| hosts.of(rank, 5)).collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
        assert_eq!(hosts.devices_of(1).as_deref(), Some("=rxe2,rxe3"));
        let crowd = Hosts { count: 8, devices: 4 };
        assert_eq!(crowd.devices_of(6).as_deref(), Some("=rxe2"));
        assert_eq!(Hosts::pretended(2).devices_of(1), None);
    }
}
