//! Recording kernels: the kernels of a module, with records of what thread blocks do.
//!
//! `device/record.cuh` says what they write and where. They take the same launch records as the
//! kernels of images, and leave the same behind, so that ranks need not agree who records. No image
//! holds any, as code for records takes time where nobody reads them: a [`RecordingKernel`] is
//! compiled where it is used.

use std::sync::OnceLock;

use msccl_collective::DataType;
use sha2::Sha256;

use crate::Module;
use crate::recipe::Architecture;
use crate::specialised::{Key, common, plain_headers};

/// The macro with which headers have records.
const MACRO: &str = "MSCCL_RECORDS";

/// The words of a ring, of which each thread block has one: `RING_WORDS` on the device.
pub const RING_WORDS: usize = 16384;

/// How many words a thread block writes at most before it shows them, but for those of a begin:
/// `RING_UNSHOWN_WORDS` on the device.
pub const RING_UNSHOWN_WORDS: usize = 1024;

/// The place of a lane's link under protocol Simple among its links, as records of exchanges count
/// them: `LINK_OF_SIMPLE` on the device.
pub const LINK_OF_SIMPLE: u32 = 0;

/// The same under LL: `LINK_OF_LL` on the device.
pub const LINK_OF_LL: u32 = 1;

/// A kernel that is compiled to record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RecordingKernel {
    /// A kernel of a module, with records.
    Call {
        /// The module.
        module: Module,
        /// The type of elements.
        data_type: DataType,
    },
    /// What answers with the clock of records.
    Clock,
}

impl RecordingKernel {
    /// Its name in its code.
    pub fn name(self) -> String {
        match self {
            Self::Call { module, data_type } => module.kernel(data_type.name()),
            Self::Clock => "msccl_record_clock".to_owned(),
        }
    }

    /// The text to compile, which includes [`headers`].
    pub fn source(self) -> String {
        match self {
            Self::Call { module, data_type } => {
                format!("#define {MACRO}\n{}", module.entry_for(&[data_type]))
            }
            Self::Clock => {
                format!("#include \"record_clock.cuh\"\nMSCCL_RECORD_CLOCK({})\n", self.name())
            }
        }
    }

    /// What distinguishes its machine code for `architecture` from any other.
    pub fn key(self, architecture: Architecture) -> Key {
        static COMMON: OnceLock<Sha256> = OnceLock::new();
        Key::new(COMMON.get_or_init(|| common(headers())), architecture, &self.source())
    }

    /// The name of the file with its machine code for `architecture`.
    pub fn file_name(self, architecture: Architecture) -> String {
        let (name, key) = (self.name(), self.key(architecture));
        format!("{}.recording.{name}.{key}.kernel", architecture.name())
    }
}

/// Whether kernels of `module` record. Those that scale or combine wait for nobody, and do one
/// thing.
pub fn records(module: Module) -> bool {
    !matches!(module, Module::Scale | Module::Combine)
}

/// What the kernel [`RecordingKernel::Clock`] is given by value.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ClockLaunch {
    /// Two words in host memory that the device reaches, zero at first: the number of a round, and
    /// the answer.
    pub mailbox: u64,
    /// How many rounds there are.
    pub rounds: u64,
}

/// The headers that recording kernels include: names and texts.
pub fn headers() -> &'static [(String, String)] {
    plain_headers()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the header `of` declares the constant `name` with this value.
    fn declares(of: &str, name: &str, value: u64) -> bool {
        let header = headers().iter().find(|(name, _)| name == of).expect("it is carried along");
        header.1.lines().any(|line| line == format!("constexpr u32 {name} = {value};"))
    }

    #[test]
    fn a_kernel_is_instantiated_alone() {
        let (module, data_type) = (Module::Ll, DataType::Bf16);
        let kernel = RecordingKernel::Call { module, data_type };
        let source = kernel.source();
        let lines: Vec<_> = source.lines().collect();
        assert_eq!(lines[0], "#define MSCCL_RECORDS");
        assert_eq!(lines[3..], ["MSCCL_INTERPRETER(msccl_ll_bf16, Ll, Bf16)"]);
        let other = RecordingKernel::Call { module, data_type: DataType::F16 };
        let (sm_90, sm_80) = (Architecture::Machine(90), Architecture::Machine(80));
        assert_ne!(kernel.key(sm_90), other.key(sm_90));
        assert_ne!(kernel.key(sm_90), kernel.key(sm_80));
    }

    #[test]
    fn constants_are_as_on_the_device() {
        assert!(declares("record.cuh", "RING_WORDS", RING_WORDS as u64));
        assert!(declares("record.cuh", "RING_UNSHOWN_WORDS", RING_UNSHOWN_WORDS as u64));
        assert!(declares("exchange_records.cuh", "LINK_OF_SIMPLE", LINK_OF_SIMPLE.into()));
        assert!(declares("exchange_records.cuh", "LINK_OF_LL", LINK_OF_LL.into()));
    }
}
