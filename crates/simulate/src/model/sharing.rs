//! Max–min fair sharing of links, ports and memories among moves.
//!
//! Progressive filling: all flows grow alike until a resource is full or a flow is as fast as it
//! can be. Those stay as they are, the others grow on. (Bertsekas and Gallager, Data Networks,
//! section 6.5.2.)

/// Something with a rate that flows share.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Use {
    /// Which resource.
    pub resource: u32,
    /// How much of its rate one byte of the flow takes.
    pub weight: f64,
}

/// A move under way.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Flow {
    /// Whose it is: chosen by the engine.
    pub owner: usize,
    /// What is left, in bytes.
    pub left_bytes: f64,
    /// The most that it can be, in bytes/ns.
    pub rate_max: f64,
    /// What it is, in bytes/ns.
    pub rate: f64,
    /// What it takes.
    pub uses: Vec<Use>,
}

/// What is left and demanded of every resource while rates are found.
pub(super) struct Sharing {
    capacity: Vec<f64>,
    left: Vec<f64>,
    demanded: Vec<f64>,
    touched: Vec<u32>,
}

/// Rates that differ by less are one.
const SAME: f64 = 1.0 + 1e-9;

impl Sharing {
    /// Of resources with these rates, in bytes/ns.
    pub fn new(capacity: Vec<f64>) -> Self {
        let (left, demanded) = (vec![0.0; capacity.len()], vec![0.0; capacity.len()]);
        Self { capacity, left, demanded, touched: Vec::new() }
    }

    /// Sets the rates of all flows.
    pub fn share(&mut self, flows: &mut [Flow]) {
        self.begin(flows);
        let mut open: Vec<usize> = (0..flows.len()).collect();
        while !open.is_empty() {
            let own = open.iter().map(|&flow| flows[flow].rate_max);
            let level = own.fold(self.level(), f64::min) * SAME;
            let before = open.len();
            open.retain(|&at| {
                let flow = &mut flows[at];
                let full = flow.uses.iter().any(|of| self.is_full(of.resource, level));
                if !full && flow.rate_max > level {
                    return true;
                }
                flow.rate = flow.rate_max.min(level);
                false
            });
            // Rounding must not keep it from ending.
            if open.len() == before {
                open.iter().for_each(|&flow| flows[flow].rate = level);
                break;
            }
            self.settle(flows, &open);
        }
        self.touched.iter().for_each(|&at| self.demanded[at as usize] = 0.0);
    }

    fn begin(&mut self, flows: &[Flow]) {
        self.touched.clear();
        for of in flows.iter().flat_map(|flow| &flow.uses) {
            let at = of.resource as usize;
            if self.demanded[at] == 0.0 {
                self.touched.push(of.resource);
                self.left[at] = self.capacity[at];
            }
            self.demanded[at] += of.weight;
        }
    }

    /// The rate at which the next resource is full.
    fn level(&self) -> f64 {
        let levels = self.touched.iter().map(|&at| at as usize);
        let levels = levels.filter(|&at| self.demanded[at] > 0.0);
        levels.map(|at| self.left[at] / self.demanded[at]).fold(f64::INFINITY, f64::min)
    }

    fn is_full(&self, resource: u32, level: f64) -> bool {
        let at = resource as usize;
        self.left[at] <= level * self.demanded[at]
    }

    /// What is left when the flows that are not `open` have their rates.
    fn settle(&mut self, flows: &[Flow], open: &[usize]) {
        for &at in &self.touched {
            (self.left[at as usize], self.demanded[at as usize]) =
                (self.capacity[at as usize], 0.0);
        }
        let mut open = open.iter().peekable();
        for (at, flow) in flows.iter().enumerate() {
            let is_open = open.next_if(|&&next| next == at).is_some();
            for of in &flow.uses {
                let resource = of.resource as usize;
                if is_open {
                    self.demanded[resource] += of.weight;
                } else {
                    self.left[resource] -= of.weight * flow.rate;
                }
            }
        }
        self.touched.iter().for_each(|&at| {
            self.left[at as usize] = self.left[at as usize].max(0.0);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(rate_max: f64, uses: &[(u32, f64)]) -> Flow {
        let uses = uses.iter().map(|&(resource, weight)| Use { resource, weight }).collect();
        Flow { owner: 0, left_bytes: 1.0, rate_max, rate: 0.0, uses }
    }

    fn rates(capacity: &[f64], flows: &[(f64, &[(u32, f64)])]) -> Vec<f64> {
        let mut flows: Vec<_> = flows.iter().map(|&(max, uses)| flow(max, uses)).collect();
        let mut sharing = Sharing::new(capacity.to_vec());
        sharing.share(&mut flows);
        flows.iter().map(|flow| (flow.rate * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn what_slow_flows_leave_goes_to_the_others() {
        let inf = f64::INFINITY;
        assert_eq!(rates(&[9.0], &[(inf, &[(0, 1.0)]), (inf, &[(0, 1.0)])]), [4.5, 4.5]);
        assert_eq!(rates(&[9.0], &[(1.0, &[(0, 1.0)]), (inf, &[(0, 1.0)])]), [1.0, 8.0]);
        assert_eq!(rates(&[9.0], &[(2.0, &[]), (inf, &[(0, 3.0)])]), [2.0, 3.0]);
    }

    #[test]
    fn a_flow_over_two_links_gets_what_the_fuller_one_gives() {
        let inf = f64::INFINITY;
        // The textbook's chain: one long flow, one short flow a link.
        let found = rates(
            &[10.0, 4.0],
            &[(inf, &[(0, 1.0), (1, 1.0)]), (inf, &[(0, 1.0)]), (inf, &[(1, 1.0)])],
        );
        assert_eq!(found, [2.0, 8.0, 2.0]);
    }
}
