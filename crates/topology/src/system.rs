//! The description of a system, in the terms of NCCL's topology files.
//!
//! It is a tree: NUMA nodes hold PCI switches, which hold GPUs and NICs. NVLinks are named by the
//! GPUs they start from. Several hosts may stand in one description; their NUMA nodes carry
//! different host hashes. Nothing is checked across devices: links may lead nowhere.

use std::fmt;

use crate::address::{BusId, PciClass, PciId};

/// Longest name, in bytes; NCCL keeps no more of any value.
pub const MOST_VALUE_BYTES: usize = 255;

/// All that is described.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct System {
    /// What it is called.
    pub name: Option<Name>,
    /// Its NUMA nodes.
    pub cpus: Vec<Cpu>,
}

/// A name that fits into a topology file, whose readers know no entities: printable ASCII without
/// `"`, `'`, `<`, `>` and `&`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(String);

impl Name {
    /// `text`, if it fits.
    pub fn new(text: &str) -> Option<Self> {
        let fits = |byte: u8| (b' '..=b'~').contains(&byte) && !b"\"'<>&".contains(&byte);
        let short = text.len() <= MOST_VALUE_BYTES;
        (short && text.bytes().all(fits)).then(|| Self(text.to_owned()))
    }

    /// What stands for the name of port number `dev`.
    pub(crate) fn of_port(dev: u32) -> Self {
        Self(format!("net{dev}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A NUMA node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cpu {
    /// Its number on its host.
    pub numa: u32,
    /// Its processors.
    pub affinity: CpuSet,
    /// Instruction set.
    pub arch: Option<Arch>,
    /// Who made it.
    pub vendor: Option<CpuVendor>,
    /// The maker's family number.
    pub family: Option<u32>,
    /// The maker's model number.
    pub model: Option<u32>,
    /// Distinguishes hosts; nodes without one are of the same host.
    pub host: Option<HostHash>,
    /// What is attached to it.
    pub devices: Vec<Device>,
}

/// What distinguishes one host from another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostHash(pub u64);

/// A set of processors: words of 32 bits, the most significant first.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CpuSet {
    /// The words.
    pub words: Vec<u32>,
}

impl CpuSet {
    /// Most words: 8192 processors, more than Linux has.
    pub const MOST_WORDS: usize = 256;

    /// Whether it has the processor `number`.
    pub fn contains(&self, number: usize) -> bool {
        let word = self.words.iter().rev().nth(number / 32);
        word.is_some_and(|word| word & (1 << (number % 32)) != 0)
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, word) in self.words.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            write!(f, "{comma}{word:08x}")?;
        }
        Ok(())
    }
}

/// An instruction set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arch {
    /// Of Intel's and AMD's.
    X86_64,
    /// Arm's with 64 bits.
    Arm64,
    /// IBM's.
    Ppc64,
}

/// Who made a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuVendor {
    /// Intel.
    Intel,
    /// AMD.
    Amd,
    /// Hygon, whose processors are of AMD's design.
    Hygon,
    /// Zhaoxin, under the older of its two names.
    Zhaoxin,
    /// Zhaoxin, under the newer one.
    Shanghai,
}

/// What is attached to a NUMA node or to a PCI switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Device {
    /// A PCI switch, or a function of no interest by itself.
    Switch(Switch),
    /// A GPU.
    Gpu(Gpu),
    /// A network card.
    Nic(Nic),
}

/// A function on the PCI bus.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PciFunction {
    /// Where it is.
    pub bus_id: BusId,
    /// What it is, if the description states it.
    pub class: Option<PciClass>,
    /// Maker.
    pub vendor: Option<PciId>,
    /// Product.
    pub device: Option<PciId>,
    /// Maker of the board.
    pub subsystem_vendor: Option<PciId>,
    /// Product, as a board.
    pub subsystem_device: Option<PciId>,
    /// The link to what it is attached to.
    pub link: PciLink,
}

/// A PCI link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciLink {
    /// Speed of a lane, if known.
    pub generation: Option<PciGeneration>,
    /// Number of lanes; 0 if unknown.
    pub width: u16,
}

/// Speed of a PCI lane.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PciGeneration {
    /// 2.5 GT/s.
    Gen1,
    /// 5 GT/s.
    Gen2,
    /// 8 GT/s.
    Gen3,
    /// 16 GT/s.
    Gen4,
    /// 32 GT/s.
    Gen5,
    /// 64 GT/s.
    Gen6,
}

/// A PCI switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switch {
    /// The port that leads upwards.
    pub function: PciFunction,
    /// Other switches to which it has links of its own.
    pub peers: Vec<BusId>,
    /// What is attached to it.
    pub devices: Vec<Device>,
}

/// A GPU.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Gpu {
    /// Its place on the PCI bus.
    pub function: PciFunction,
    /// Its number on its host.
    pub dev: u32,
    /// Compute capability of NVIDIA's, ten times the major version plus the minor one.
    pub sm: Option<u32>,
    /// Architecture of AMD's, such as `gfx942`.
    pub gcn: Option<Name>,
    /// The rank that uses it.
    pub rank: Option<u32>,
    /// Whether NICs can access its memory.
    pub gdr: Option<bool>,
    /// Bundles of links to other GPUs, or to switches between them.
    pub nvlinks: Vec<NvLinks>,
    /// The link to the processor in the same package.
    pub c2c: Option<C2c>,
}

/// Links from one GPU to one other device: NVLinks, or what another maker has in their place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NvLinks {
    /// Whose they are.
    pub kind: GpuLinkKind,
    /// Where they lead, if known.
    pub target: Option<BusId>,
    /// How many they are.
    pub count: u32,
    /// What they lead to.
    pub target_class: PciClass,
}

/// Whose links between GPUs they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GpuLinkKind {
    /// NVIDIA's NVLink.
    NvLink,
    /// AMD's xGMI.
    Xgmi,
}

/// Links between a GPU and a processor in one package.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct C2c {
    /// Of one link.
    pub megabytes_per_s: u32,
    /// How many they are.
    pub count: u32,
}

/// A network card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Nic {
    /// Its place on the PCI bus; virtual ones have none.
    pub function: Option<PciFunction>,
    /// Its ports.
    pub nets: Vec<Net>,
}

/// A port of a network card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Net {
    /// What the operating system calls the card or interface.
    pub name: Name,
    /// Its number on its host.
    pub dev: u32,
    /// Speed; not 0.
    pub speed_mbit_per_s: u32,
    /// Number of the port on its card.
    pub port: u32,
    /// Time that it adds.
    pub latency_ns: u32,
    /// Identity of the card.
    pub guid: u64,
    /// Most connections.
    pub max_connections: u32,
    /// Whether it can access the memory of GPUs.
    pub gdr: bool,
    /// Whether it offers collectives of its own.
    pub coll: bool,
    /// The rail it belongs to.
    pub rail: Option<u32>,
    /// The plane it belongs to.
    pub plane: Option<u32>,
}
