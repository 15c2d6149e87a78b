//! For which devices modules are compiled, and how.

/// What an image is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Architecture {
    /// Machine code for this compute capability and higher ones of the same major number.
    Machine(u32),
    /// Text that the driver compiles, for this compute capability and all higher ones.
    Portable(u32),
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

/// What the compiler gets beside the architecture.
pub const OPTIONS: [&str; 3] =
    ["--std=c++17", "--fmad=false", "--device-as-default-execution-space"];

/// All that the compiler gets for `architecture`.
pub fn options(architecture: Architecture) -> Vec<String> {
    let architecture = format!("--gpu-architecture={}", architecture.name());
    OPTIONS.map(str::to_owned).into_iter().chain([architecture]).collect()
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
