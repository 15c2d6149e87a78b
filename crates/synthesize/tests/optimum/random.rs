//! Random machines, the same for the same seed.

use msccl_topology::bandwidth::Bandwidth;
use msccl_topology::cluster::{Cluster, Medium, VertexIndex, VertexKind};

/// Numbers without pattern, by xorshift.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }
}

fn rate(numbers: &mut Numbers) -> Bandwidth {
    Bandwidth::from_mb_per_s(1000 * (1 + numbers.below(5)) as u32)
}

/// GPUs in a line, and random links between them.
pub fn gpus(count: usize, seed: u64) -> Cluster {
    let mut numbers = Numbers(seed);
    let mut cluster = Cluster::new(format!("random {seed}"));
    let gpus = add(&mut cluster, count);
    let mut join = |one: usize, other: usize, numbers: &mut Numbers| {
        cluster.join(gpus[one], gpus[other], rate(numbers), 700, Medium::NvLink);
    };
    (1..count).for_each(|at| join(at - 1, at, &mut numbers));
    for _ in 0..2 * count {
        let (one, other) = (numbers.below(count), numbers.below(count));
        if one != other {
            join(one, other, &mut numbers);
        }
    }
    cluster
}

/// GPUs at one of several switches each, and these in a line. There is one way between any two.
pub fn at_switches(vertices: usize, seed: u64) -> Cluster {
    let mut numbers = Numbers(seed);
    let mut cluster = Cluster::new(format!("switches {seed}"));
    let switch_count = 2 + numbers.below(2);
    let gpus = add(&mut cluster, vertices - switch_count);
    let switches: Vec<_> = (0..switch_count)
        .map(|at| cluster.add(format!("switch{at}"), VertexKind::Switch, Some(0)))
        .collect();
    for (at, gpu) in gpus.iter().enumerate() {
        let switch = switches[at % switch_count];
        cluster.join(*gpu, switch, rate(&mut numbers), 500, Medium::Pci);
    }
    for pair in switches.windows(2) {
        cluster.join(pair[0], pair[1], rate(&mut numbers), 500, Medium::Socket);
    }
    cluster
}

/// GPUs at one of two switches, and links between all pairs at one switch and a third of the
/// others, beside which messages share the link between both switches.
pub fn beside_switches(count: usize, seed: u64) -> Cluster {
    let mut numbers = Numbers(seed * 7919);
    let mut cluster = Cluster::new(format!("beside switches {seed}"));
    let gpus = add(&mut cluster, count);
    let switches = [0, 1].map(|at| cluster.add(format!("switch{at}"), VertexKind::Switch, Some(0)));
    for (at, gpu) in gpus.iter().enumerate() {
        cluster.join(*gpu, switches[at % 2], rate(&mut numbers), 500, Medium::Pci);
        for (other_at, other) in gpus.iter().enumerate().skip(at + 1) {
            if (other_at - at) % 2 == 0 || numbers.below(3) == 0 {
                cluster.join(*gpu, *other, rate(&mut numbers), 700, Medium::NvLink);
            }
        }
    }
    cluster.join(switches[0], switches[1], rate(&mut numbers), 500, Medium::Socket);
    cluster
}

fn add(cluster: &mut Cluster, count: usize) -> Vec<VertexIndex> {
    (0..count).map(|at| cluster.add(format!("gpu{at}"), VertexKind::Gpu, Some(0))).collect()
}
