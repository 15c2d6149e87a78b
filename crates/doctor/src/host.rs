//! What is said of GPUs, networks, memory and limits.

use crate::facts::{Gpu, GpuFacts, Interface, LimitFacts, NetworkFacts, SharedMemoryFacts};
use crate::finding::{Finding, Severity, Topic};

/// The least compute capability, as major and minor number.
const LEAST_CAPABILITY: (u32, u32) = (7, 0);
/// From here on kernels start early, and copy in bulk.
const FULL_CAPABILITY: (u32, u32) = (9, 0);
/// What data loaders of PyTorch need at least; containers have 64 MiB if nobody asks for more.
const LEAST_SHARED_BYTES: u64 = 1 << 30;
/// Open files that suffice for communicators of some hundred ranks.
const ENOUGH_OPEN_FILES: u64 = 4096;
/// Locked memory below which RDMA cannot register its buffers, in bytes.
const LEAST_LOCKED_BYTES: u64 = 1 << 30;

pub(crate) fn gpus(facts: &GpuFacts) -> Vec<Finding> {
    match facts {
        GpuFacts::Unusable(why) => vec![
            Finding::new(
                Severity::Fails,
                Topic::Gpu,
                format!(
                    "no GPU can be used: {why}. Programs over CUDA do not run here; the compiler, \
                     the verifier and ranks on host threads do"
                ),
            )
            .advise(
                "for GPUs install NVIDIA's driver, or start the container with them (`--gpus \
                 all`); without, set MSCCL_DEVICE=host",
            ),
        ],
        GpuFacts::Usable { driver, gpus, without_access } => {
            let mut findings = vec![drivers(driver, gpus)];
            findings.extend(gpus.iter().enumerate().filter_map(|(at, gpu)| capability(at, gpu)));
            findings.extend(peer_access(gpus.len(), without_access));
            findings
        }
    }
}

fn drivers(driver: &str, gpus: &[Gpu]) -> Finding {
    let names: Vec<&str> = gpus.iter().map(|gpu| gpu.name.as_str()).collect();
    let runs = names.chunk_by(|one, other| one == other);
    let named: Vec<_> = runs.map(|run| format!("{} {}", run.len(), run[0])).collect();
    let message = format!("GPUs: {}; the driver supports CUDA {driver}", named.join(", "));
    Finding::new(Severity::Good, Topic::Gpu, message)
}

fn capability(at: usize, gpu: &Gpu) -> Option<Finding> {
    let Gpu { name, capability: (major, minor) } = gpu;
    let of = |severity, what: &str| {
        let message = format!("GPU {at} ({name}) has compute capability {major}.{minor}: {what}");
        Some(Finding::new(severity, Topic::Gpu, message))
    };
    match gpu.capability {
        below if below < LEAST_CAPABILITY => {
            let found = of(Severity::Fails, "kernels need 7.0 at least, so it is refused");
            found.map(|finding| finding.advise("leave it out with CUDA_VISIBLE_DEVICES"))
        }
        below if below < FULL_CAPABILITY => of(
            Severity::Note,
            "kernels that start early and copies in bulk need 9.0, so other kernels run; it was \
             never measured",
        ),
        _ => None,
    }
}

fn peer_access(gpus: usize, without_access: &[(u32, u32)]) -> Option<Finding> {
    if gpus < 2 {
        return None;
    }
    let Some((from, to)) = without_access.first() else {
        let message = "all GPUs can map one another's memory";
        return Some(Finding::new(Severity::Good, Topic::PeerAccess, message));
    };
    let pairs = gpus * (gpus - 1);
    let message = format!(
        "{} of {pairs} pairs of GPUs have no peer access (such as GPU {from} to GPU {to}): \
         messages between them go through host memory",
        without_access.len()
    );
    let finding = Finding::new(Severity::Slow, Topic::PeerAccess, message);
    Some(finding.advise(
        "`nvidia-smi topo -p2p r` says why; virtual machines need GPUs that are passed through \
         with peer access, and on bare metal ACS and the IOMMU often prevent it",
    ))
}

pub(crate) fn network(facts: &NetworkFacts, has_rdma_library: bool) -> Vec<Finding> {
    let NetworkFacts { interfaces, rdma_devices } = facts;
    let up: Vec<_> = interfaces.iter().filter(|interface| interface.is_up).collect();
    let mut findings = Vec::new();
    if up.is_empty() {
        let message = "no network interface is up: ranks of this host find one another over \
                       loopback, other hosts cannot be reached";
        findings.push(
            Finding::new(Severity::Note, Topic::Network, message)
                .advise("`ip link` shows interfaces; for one host nothing needs to be done"),
        );
    } else {
        let names: Vec<_> = up.iter().map(|interface| described(interface)).collect();
        let message = format!("network interfaces that are up: {}", names.join(", "));
        findings.push(Finding::new(Severity::Good, Topic::Network, message));
    }
    if rdma_devices.is_empty() {
        let message = "no RDMA device: links to other hosts go over TCP";
        findings.push(Finding::new(Severity::Note, Topic::Network, message));
    } else if has_rdma_library {
        let message = format!("RDMA devices: {}", rdma_devices.join(", "));
        findings.push(Finding::new(Severity::Good, Topic::Network, message));
    } else {
        let message = format!(
            "RDMA devices ({}) are not used: libmsccl-rdma.so does not lie beside libnccl.so.2, \
             so links to other hosts go over TCP",
            rdma_devices.join(", ")
        );
        findings.push(
            Finding::new(Severity::Slow, Topic::Network, message)
                .advise("build it and put it there, as docs/RDMA.md says"),
        );
    }
    findings
}

fn described(interface: &Interface) -> String {
    let Interface { name, is_up: _, mbit_per_s } = interface;
    match mbit_per_s {
        Some(rate) if *rate >= 1000 => format!("{name} ({} Gb/s)", f64::from(*rate) / 1e3),
        Some(rate) => format!("{name} ({rate} Mb/s)"),
        None => name.clone(),
    }
}

pub(crate) fn shared_memory(facts: Option<SharedMemoryFacts>) -> Finding {
    let advice = "give a container more: `docker run --shm-size 16g` or `--ipc=host`; in \
                  Kubernetes an emptyDir of medium Memory at /dev/shm";
    let Some(SharedMemoryFacts { size_bytes, free_bytes }) = facts else {
        let message = "there is no /dev/shm: this library does not need it, but NCCL and data \
                       loaders of PyTorch fail without it";
        return Finding::new(Severity::Fails, Topic::SharedMemory, message).advise(advice);
    };
    let (size, free) = (in_mib(size_bytes), in_mib(free_bytes));
    if size_bytes < LEAST_SHARED_BYTES || free_bytes < LEAST_SHARED_BYTES / 8 {
        let message = format!(
            "/dev/shm is small: {size}, {free} of it free. This library does not need it (its \
             shared memory is anonymous), but NCCL, and data loaders of PyTorch with workers, \
             end with a bus error when it is full"
        );
        return Finding::new(Severity::Fails, Topic::SharedMemory, message).advise(advice);
    }
    let message = format!("/dev/shm has {size}, {free} of it free");
    Finding::new(Severity::Good, Topic::SharedMemory, message)
}

fn in_mib(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}

pub(crate) fn limits(facts: LimitFacts, network: &NetworkFacts) -> Vec<Finding> {
    let LimitFacts { locked_bytes, open_files_most } = facts;
    let mut findings = Vec::new();
    if let Some(most) = open_files_most.filter(|most| *most < ENOUGH_OPEN_FILES) {
        let message = format!(
            "a process may open {most} files: communicators of many ranks need more (rank 0 holds \
             a connection to each)"
        );
        findings.push(
            Finding::new(Severity::Note, Topic::Limits, message)
                .advise("raise the hard limit (`ulimit -Hn`); docs/SCALE.md says to how many"),
        );
    }
    let locked = locked_bytes.filter(|most| *most < LEAST_LOCKED_BYTES);
    if let Some(most) = locked.filter(|_| !network.rdma_devices.is_empty()) {
        let message = format!(
            "a process may lock {} KiB of memory: RDMA cannot register its buffers",
            most >> 10
        );
        findings.push(
            Finding::new(Severity::Fails, Topic::Limits, message)
                .advise("`ulimit -l unlimited`, or the capability IPC_LOCK of the container"),
        );
    }
    if findings.is_empty() {
        let message = "limits on locked memory and open files suffice";
        findings.push(Finding::new(Severity::Good, Topic::Limits, message));
    }
    findings
}
