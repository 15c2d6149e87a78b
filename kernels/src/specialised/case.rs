//! Calls to measure specialised kernels with.

use std::fmt;
use std::str::FromStr;

use msccl_collective::{DataType, Protocol};
use msccl_plan::Plan;
use msccl_plan::cut::Cut;
use msccl_plan::exchange::WireShape;
use msccl_plan::launch::{self, Launch};

use super::{Known, source};

/// A call of an algorithm, with everything that a kernel can be built for. Contributions are
/// summed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The name of a built-in algorithm.
    pub algorithm: String,
    /// Whether input and output share memory.
    pub in_place: bool,
    /// Ranks.
    pub ranks: u32,
    /// How messages are laid out.
    pub protocol: Protocol,
    /// The type of every element.
    pub data_type: DataType,
    /// Elements of a block.
    pub count: u64,
    /// Copies of the program that run side by side.
    pub instances: u32,
    /// Threads in a block.
    pub threads: u32,
}

impl Case {
    /// Wires between any two ranks: as many, as deep and as large as those of small communicators.
    pub fn wires(&self) -> WireShape {
        match self.protocol {
            Protocol::Simple => WireShape { wires: 64, depth: 4, slot_bytes: 128 << 10 },
            Protocol::Ll => WireShape { wires: 64, depth: 8, slot_bytes: 16 << 10 },
            Protocol::Ll128 => WireShape { wires: 64, depth: 8, slot_bytes: 32 << 10 },
        }
    }

    /// What a rank's kernel is given of the call, without addresses; `None` if it cannot be cut.
    pub fn launch(&self, plan: &Plan) -> Option<Launch> {
        let WireShape { wires, depth, slot_bytes } = self.wires();
        let element = self.data_type.size_bytes() as u64;
        let (instances, slot) = (self.instances, u64::from(slot_bytes));
        let cut = Cut::within(plan.program(), self.count, element, instances, self.protocol, slot)?;
        let launch = Launch {
            ranks: self.ranks,
            wires,
            link_depth: depth,
            slot_bytes,
            reduction: launch::REDUCTION_SUM,
            ..Launch::default()
        };
        Some(launch.with_plan(plan).with_cut(&cut))
    }

    /// The source of specialised kernels for the ranks of `plans`; `None` if the call cannot be
    /// cut.
    pub fn source(&self, plans: &[Plan], known: Known) -> Option<String> {
        let launched = |plan| Some((plan, self.launch(plan)?));
        let ranks = plans.iter().map(launched).collect::<Option<Vec<_>>>()?;
        Some(source(self.protocol, self.data_type, known, &ranks))
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        self.count * self.data_type.size_bytes() as u64
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { algorithm, in_place, ranks, protocol, data_type, count, instances, threads } =
            self;
        let place = if *in_place { "in" } else { "out" };
        write!(
            f,
            "{algorithm} {place} {ranks} {protocol} {data_type} {count} {instances} {threads}"
        )
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{line}` is no case: expected `algorithm in|out ranks protocol type count \
                 instances threads`"
            )
        };
        let words: Vec<_> = line.split_whitespace().collect();
        let [algorithm, place, ranks, protocol, data_type, count, instances, threads] = words[..]
        else {
            return Err(wrong());
        };
        let in_place = match place {
            "in" => true,
            "out" => false,
            _ => return Err(wrong()),
        };
        Ok(Self {
            algorithm: algorithm.to_owned(),
            in_place,
            ranks: ranks.parse().map_err(|_| wrong())?,
            protocol: protocol.parse().map_err(|_| wrong())?,
            data_type: data_type.parse().map_err(|_| wrong())?,
            count: count.parse().map_err(|_| wrong())?,
            instances: instances.parse().map_err(|_| wrong())?,
            threads: threads.parse().map_err(|_| wrong())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_as_they_are_written() {
        let line = "allreduce/one_shot out 2 LL f32 256 1 128";
        let case: Case = line.parse().unwrap();
        assert_eq!(case.to_string(), line);
        for wrong in ["", "allreduce/one_shot", "a over 2 LL f32 1 1 1", "a in 2 LLL f32 1 1 1"] {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
    }
}
