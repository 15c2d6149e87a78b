//! What is known of a machine and its environment.

use serde::Serialize;

/// All that is known.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Facts {
    /// The GPUs, or why there are none.
    pub gpus: GpuFacts,
    /// Network cards.
    pub network: NetworkFacts,
    /// `/dev/shm`; `None` if there is no such file system.
    pub shared_memory: Option<SharedMemoryFacts>,
    /// What the system allows a process.
    pub limits: LimitFacts,
    /// The Python at hand; `None` if there is none.
    pub python: Option<PythonFacts>,
    /// Files that a process may load as `libnccl.so.2`.
    pub libraries: Vec<LibraryFile>,
    /// Whether `libmsccl-rdma.so` lies beside this library.
    pub has_rdma_library: bool,
    /// What is set in the environment and could be meant for a library of collectives.
    pub variables: Vec<SetVariable>,
    /// What is wrong with variables of this library, in words.
    pub value_errors: Vec<String>,
    /// Libraries of a running process, if one is examined.
    pub process: Option<ProcessFacts>,
}

/// Driver and GPUs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum GpuFacts {
    /// There is none that can be used, for this reason.
    Unusable(String),
    /// There are some.
    Usable {
        /// The newest CUDA version that the driver supports, such as `13.0`.
        driver: String,
        /// Each of them.
        gpus: Vec<Gpu>,
        /// Ordered pairs of GPUs, by number, of which the first cannot map the second's memory.
        without_access: Vec<(u32, u32)>,
    },
}

impl Default for GpuFacts {
    fn default() -> Self {
        GpuFacts::Unusable("nothing is known".to_owned())
    }
}

/// A GPU.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Gpu {
    /// What its maker calls it.
    pub name: String,
    /// Major and minor number of its compute capability.
    pub capability: (u32, u32),
}

/// Network cards.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct NetworkFacts {
    /// Interfaces of cards or of virtual machines, without loopback, bridges and tunnels.
    pub interfaces: Vec<Interface>,
    /// RDMA devices, by name.
    pub rdma_devices: Vec<String>,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Interface {
    /// What the kernel calls it.
    pub name: String,
    /// Whether it is up.
    pub is_up: bool,
    /// Its rate in Mb/s, if the kernel knows it.
    pub mbit_per_s: Option<u32>,
}

/// A file system of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SharedMemoryFacts {
    /// All of it.
    pub size_bytes: u64,
    /// What is free.
    pub free_bytes: u64,
}

/// What the system allows a process; `None` is without limit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize)]
pub struct LimitFacts {
    /// Memory that may be locked (`ulimit -l`).
    pub locked_bytes: Option<u64>,
    /// Open files, up to which a process may raise its own limit (`ulimit -Hn`).
    pub open_files_most: Option<u64>,
}

/// A Python and what is installed for it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct PythonFacts {
    /// The program.
    pub program: String,
    /// Its version, such as `3.12.3`.
    pub version: String,
    /// The version of PyTorch.
    pub torch: Option<String>,
    /// The version of the package of NCCL.
    pub nccl: Option<String>,
    /// The version of the package `msccl`.
    pub msccl: Option<String>,
}

/// A file that a process may load as `libnccl.so.2`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LibraryFile {
    /// Where it is, as it is named.
    pub path: String,
    /// The file behind all links: two paths of one file have the same.
    pub real_path: String,
    /// How a loader comes to it.
    pub found_by: FoundBy,
    /// What it is.
    pub kind: LibraryKind,
}

/// How a loader comes to a library.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FoundBy {
    /// `LD_PRELOAD` names it.
    Preload,
    /// It is that of the package `nvidia-nccl`, which PyTorch names in its own path.
    NcclPackage,
    /// It is in a folder of `LD_LIBRARY_PATH`.
    LibraryPath,
    /// It is in a folder of the system.
    System,
    /// `VLLM_NCCL_SO_PATH` names it.
    Vllm,
    /// `SGLANG_NCCL_SO_PATH` names it.
    Sglang,
    /// `MSCCL_LIBRARY` names it, for commands that need a library.
    Named,
    /// It comes with this command.
    Own,
}

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LibraryKind {
    /// This library.
    Msccl,
    /// Another library with NCCL's interface.
    OtherNccl,
    /// Something else.
    Unknown,
    /// There is no such file, or it cannot be read.
    Missing,
}

/// A variable that is set.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SetVariable {
    /// Its name.
    pub name: String,
    /// What it is set to.
    pub value: String,
}

/// A running process.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ProcessFacts {
    /// Its number.
    pub pid: u32,
    /// Whether it was started with this library in `LD_PRELOAD`, whose functions come first then.
    pub preloads_ours: bool,
    /// The files with NCCL's interface that it has loaded, or why they are not known.
    pub loaded: Result<Vec<LoadedLibrary>, String>,
}

/// A library that a process has loaded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LoadedLibrary {
    /// The file.
    pub path: String,
    /// What it is.
    pub kind: LibraryKind,
}
