//! What is compiled, for which devices, and how.

/// A file of kernels.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Module {
    /// Interpreters over protocol Simple.
    Simple,
    /// The same whose thread blocks work as crews.
    Crew,
    /// Those of protocol Simple with links that may deliver directly.
    Direct,
    /// [`Module::Simple`] for operands that lie anywhere.
    SimpleOdd,
    /// [`Module::Crew`] for operands that lie anywhere.
    CrewOdd,
    /// [`Module::Direct`] for operands that lie anywhere.
    DirectOdd,
    /// Interpreters over protocol LL.
    Ll,
    /// Interpreters over protocol LL128.
    Ll128,
    /// Kernels for small calls over protocol LL.
    LlSmall,
    /// The same whose operands lie anywhere.
    LlOdd,
    /// Kernels for small calls over protocol LL128.
    Ll128Small,
    /// The same whose operands lie anywhere.
    Ll128Odd,
    /// Point-to-point exchanges.
    Exchange,
    /// Scaling by a number.
    Scale,
}

/// What an image is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Architecture {
    /// Machine code for this compute capability and higher ones of the same major number.
    Machine(u32),
    /// Text that the driver compiles, for this compute capability and all higher ones.
    Portable(u32),
}

impl Module {
    /// Every module.
    pub const ALL: [Module; 14] = [
        Module::Simple,
        Module::Crew,
        Module::Direct,
        Module::SimpleOdd,
        Module::CrewOdd,
        Module::DirectOdd,
        Module::Ll,
        Module::Ll128,
        Module::LlSmall,
        Module::LlOdd,
        Module::Ll128Small,
        Module::Ll128Odd,
        Module::Exchange,
        Module::Scale,
    ];

    /// Its name: of its source in `device/`, and in the names of its kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Module::Simple => "simple",
            Module::Crew => "crew",
            Module::Direct => "direct",
            Module::SimpleOdd => "simple_odd",
            Module::CrewOdd => "crew_odd",
            Module::DirectOdd => "direct_odd",
            Module::Ll => "ll",
            Module::Ll128 => "ll128",
            Module::LlSmall => "ll_small",
            Module::LlOdd => "ll_odd",
            Module::Ll128Small => "ll128_small",
            Module::Ll128Odd => "ll128_odd",
            Module::Exchange => "exchange",
            Module::Scale => "scale",
        }
    }

    /// The name of its kernel for elements of `data_type`: `f32`, `f8e4m3` and so on. Exchanges have one
    /// kernel for all.
    pub fn kernel(self, data_type: &str) -> String {
        match self {
            Module::Exchange => "msccl_exchange".to_owned(),
            Module::Simple
            | Module::Crew
            | Module::Direct
            | Module::SimpleOdd
            | Module::CrewOdd
            | Module::DirectOdd
            | Module::Ll
            | Module::Ll128
            | Module::LlSmall
            | Module::LlOdd
            | Module::Ll128Small
            | Module::Ll128Odd
            | Module::Scale => format!("msccl_{}_{data_type}", self.name()),
        }
    }
}

impl Architecture {
    /// What is built: machine code for the chips of data centres, text for all others.
    pub const ALL: [Architecture; 4] = [
        Architecture::Machine(80),
        Architecture::Machine(90),
        Architecture::Portable(70),
        Architecture::Portable(90),
    ];

    /// The compiler's name for it.
    pub fn name(self) -> String {
        match self {
            Architecture::Machine(capability) => format!("sm_{capability}"),
            Architecture::Portable(capability) => format!("compute_{capability}"),
        }
    }

    /// The first that runs on a device of compute capability `major.minor`.
    pub fn for_device(major: u32, minor: u32) -> Option<Self> {
        let device = 10 * major + minor;
        let runs = |architecture: &Architecture| match *architecture {
            Architecture::Machine(least) => device / 10 == least / 10 && device >= least,
            Architecture::Portable(least) => device >= least,
        };
        let machine = Self::ALL.into_iter().find(|of| matches!(of, Self::Machine(_)) && runs(of));
        let portable =
            Self::ALL.into_iter().rev().find(|of| matches!(of, Self::Portable(_)) && runs(of));
        machine.or(portable)
    }
}

/// The compiler, by its name and version.
pub const COMPILER: &str = "NVRTC 12.4.127";

/// What the compiler is told beside the architecture.
pub const OPTIONS: [&str; 3] =
    ["--std=c++17", "--fmad=false", "--device-as-default-execution-space"];

/// All that the compiler is told for `architecture`.
pub fn options(architecture: Architecture) -> Vec<String> {
    let architecture = format!("--gpu-architecture={}", architecture.name());
    OPTIONS.map(str::to_owned).into_iter().chain([architecture]).collect()
}

/// The files that the sources include, below the folder of this package.
pub const HEADERS: [&str; 22] = [
    "include/msccl_plan.h",
    "device/ptx.cuh",
    "device/memory.cuh",
    "device/number.cuh",
    "device/block.cuh",
    "device/reduce.cuh",
    "device/wait.cuh",
    "device/link.cuh",
    "device/direct.cuh",
    "device/move.cuh",
    "device/pieces.cuh",
    "device/ragged.cuh",
    "device/simple.cuh",
    "device/packet.cuh",
    "device/ll.cuh",
    "device/ll128.cuh",
    "device/step.cuh",
    "device/crew.cuh",
    "device/interpreter.cuh",
    "device/small.cuh",
    "device/bulk.cuh",
    "device/exchange.cuh",
];

/// The header that special kernels ([`crate::special`]) include beside those; no image does.
pub const SPECIAL_HEADER: &str = "special/special.cuh";

/// The path of a module's source below the folder of this package.
pub fn source(module: Module) -> String {
    format!("device/{}.cu", module.name())
}

/// The path of an image below the folder of this package.
pub fn image(module: Module, architecture: Architecture) -> String {
    format!("images/{}.{}.z", module.name(), architecture.name())
}

/// Where it says from what the images were made.
pub const STAMP: &str = "images/SOURCES";

/// What `STAMP` must hold: a line for the compiler, a line for its options, and for every file the hash
/// that `hash` gives of the text that `read` gives.
///
/// # Errors
///
/// The first error of `read`.
pub fn stamp<E>(
    mut read: impl FnMut(&str) -> Result<Vec<u8>, E>,
    hash: impl Fn(&[u8]) -> String,
) -> Result<String, E> {
    let architectures = Architecture::ALL.map(Architecture::name).join(" ");
    let mut text = format!("{COMPILER}\n{}\n{architectures}\n", OPTIONS.join(" "));
    let files = HEADERS.into_iter().map(str::to_owned).chain(Module::ALL.map(source));
    for file in files {
        let line = format!("{}  {file}\n", hash(&read(&file)?));
        text.push_str(&line);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(major: u32, minor: u32, expected: Option<Architecture>) {
        assert_eq!(Architecture::for_device(major, minor), expected, "{major}.{minor}");
    }

    #[test]
    fn every_device_gets_the_best_image() {
        check(6, 1, None);
        check(7, 0, Some(Architecture::Portable(70)));
        check(7, 5, Some(Architecture::Portable(70)));
        check(8, 0, Some(Architecture::Machine(80)));
        check(8, 9, Some(Architecture::Machine(80)));
        check(9, 0, Some(Architecture::Machine(90)));
        check(10, 3, Some(Architecture::Portable(90)));
        check(12, 0, Some(Architecture::Portable(90)));
    }
}
