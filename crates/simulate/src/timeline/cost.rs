//! What things cost.

use msccl_collective::Protocol;

/// The costs of one host. One GB/s is 1000 bytes/µs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CostModel {
    /// From the call to the first step, in µs.
    pub launch_us: f64,
    /// Fixed cost of a message of a step, in µs.
    pub step_us: f64,
    /// From the sender's last store to the receiver's first load, in µs.
    pub latency_us: f64,
    /// From the release of a slot until its sender knows, in µs.
    pub credit_us: f64,
    /// From the end of a step until another thread block of the rank knows, in µs.
    pub signal_us: f64,
    /// What one thread block copies or reduces, in bytes/µs.
    pub tb_bytes_per_us: f64,
    /// What one rank sends, and what it receives, over all its links, in bytes/µs.
    pub port_bytes_per_us: f64,
}

impl CostModel {
    /// One host whose GPUs share a switch: H100 or H200 with NVLink 4.
    ///
    /// | figure | from |
    /// |---|---|
    /// | launch | 4.0 µs measured for a launch and one flag each way, less two flags of 0.74 µs |
    /// | latency | NCCL's own tuning model, one NVLink hop of a ring: 3.4 (Simple), 0.6 (LL), 1.9 µs (LL128) |
    /// | credit | one flag one way: 0.74 µs |
    /// | thread block | NCCL's tuning model: 44 GiB/s for a block that copies, 36.7 GB/s under LL128; LL stores a flag with every word, half of that |
    /// | port | stores by threads: 370 GB/s; LL at most 141 GB/s; LL128 loses 8 bytes of 128 |
    ///
    /// The fixed cost of a step and of a signal are guesses.
    pub fn nvswitch(protocol: Protocol) -> Self {
        let (latency_us, tb_bytes_per_us, port_bytes_per_us) = match protocol {
            Protocol::Simple => (3.4, 47_200.0, 370_000.0),
            Protocol::Ll => (0.6, 18_400.0, 141_000.0),
            Protocol::Ll128 => (1.9, 36_700.0, 347_000.0),
        };
        Self {
            launch_us: 2.5,
            step_us: 0.2,
            latency_us,
            credit_us: 0.74,
            signal_us: 0.3,
            tb_bytes_per_us,
            port_bytes_per_us,
        }
    }
}
