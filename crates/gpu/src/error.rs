//! What can go wrong: a call to the driver, or the driver as a whole.
//!
//! A driver newer than this crate may return codes that nobody here knows. They are kept as
//! the number they are ([`CuResult`]), never converted to an enumeration, and described by the
//! driver itself where it can.

use std::fmt;

use cudarc::driver::sys::CUresult;

/// The code a driver call returns. Every value is valid, known or not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct CuResult(pub u32);

impl CuResult {
    /// The call did what it should.
    pub const SUCCESS: Self = Self(CUresult::CUDA_SUCCESS as u32);
    /// An argument is not what the call accepts.
    pub const INVALID_VALUE: Self = Self(CUresult::CUDA_ERROR_INVALID_VALUE as u32);
    /// The device, or the host's pinned memory, has no room.
    pub const OUT_OF_MEMORY: Self = Self(CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32);
    /// The process is ending and the driver has shut down.
    pub const DEINITIALIZED: Self = Self(CUresult::CUDA_ERROR_DEINITIALIZED as u32);
    /// The library is the toolkit's stand-in for linking, not a driver.
    pub const STUB_LIBRARY: Self = Self(CUresult::CUDA_ERROR_STUB_LIBRARY as u32);
    /// The driver sees no device.
    pub const NO_DEVICE: Self = Self(CUresult::CUDA_ERROR_NO_DEVICE as u32);
    /// The context is not one that the call can use.
    pub const INVALID_CONTEXT: Self = Self(CUresult::CUDA_ERROR_INVALID_CONTEXT as u32);
    /// The module holds no code for this device.
    pub const NO_BINARY_FOR_GPU: Self = Self(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU as u32);
    /// The handle names nothing alive.
    pub const INVALID_HANDLE: Self = Self(CUresult::CUDA_ERROR_INVALID_HANDLE as u32);
    /// The name asked for is not there.
    pub const NOT_FOUND: Self = Self(CUresult::CUDA_ERROR_NOT_FOUND as u32);
    /// The work asked about has not finished; no failure.
    pub const NOT_READY: Self = Self(CUresult::CUDA_ERROR_NOT_READY as u32);
    /// The two devices can reach one another already; no failure.
    pub const PEER_ACCESS_ALREADY_ENABLED: Self =
        Self(CUresult::CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED as u32);
    /// A cooperative launch has more blocks than fit on the device at once.
    pub const COOPERATIVE_LAUNCH_TOO_LARGE: Self =
        Self(CUresult::CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE as u32);
    /// The driver or the device does not offer this.
    pub const NOT_SUPPORTED: Self = Self(CUresult::CUDA_ERROR_NOT_SUPPORTED as u32);
    /// The call is forbidden while a stream is being captured.
    pub const STREAM_CAPTURE_UNSUPPORTED: Self =
        Self(CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED as u32);
    /// The call would touch the legacy stream while another stream is being captured.
    pub const STREAM_CAPTURE_IMPLICIT: Self =
        Self(CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT as u32);
    /// What was asked for has more to it than the answer can say.
    pub const LOSSY_QUERY: Self = Self(CUresult::CUDA_ERROR_LOSSY_QUERY as u32);
}

/// Why a call failed.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The driver refused.
    Driver {
        /// The function that was called, under the driver's own name.
        call: &'static str,
        /// What it returned.
        code: CuResult,
        /// The driver's name for the code, or `unknown code`.
        name: &'static str,
        /// The driver's sentence about the code, empty when it has none.
        text: &'static str,
    },
    /// The installed driver has no such function: it is older than the feature.
    MissingSymbol {
        /// The function that was requested.
        call: &'static str,
    },
    /// The driver reported success and gave nothing.
    NoHandle {
        /// What was asked for.
        requested: &'static str,
    },
    /// A device image was refused.
    Image {
        /// What the driver returned.
        code: CuResult,
        /// The driver's name for the code, or `unknown code`.
        name: &'static str,
        /// What its compiler wrote about the image, possibly nothing.
        log: String,
    },
    /// Bytes were asked for that do not lie inside the memory named.
    OutOfRange {
        /// Where the bytes begin.
        offset: usize,
        /// How many there are.
        bytes: usize,
        /// How many the memory has.
        length_bytes: usize,
    },
    /// Text for the driver holds a zero byte, at which the driver would stop reading.
    ZeroByte {
        /// The text, or what it is if it is long.
        text: String,
    },
}

impl Error {
    /// The driver's code, where the driver was what failed.
    pub fn code(&self) -> Option<CuResult> {
        match self {
            Self::Driver { code, .. } | Self::Image { code, .. } => Some(*code),
            Self::MissingSymbol { .. }
            | Self::NoHandle { .. }
            | Self::OutOfRange { .. }
            | Self::ZeroByte { .. } => None,
        }
    }

    /// Whether the driver returned `code`.
    pub fn is(&self, code: CuResult) -> bool {
        self.code() == Some(code)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driver { call, code: CuResult(code), name, text } => {
                write!(f, "{call} failed: {name} ({code})")?;
                if text.is_empty() { Ok(()) } else { write!(f, ": {text}") }
            }
            Self::MissingSymbol { call } => {
                write!(f, "the installed driver has no {call}: update the NVIDIA driver")
            }
            Self::NoHandle { requested } => {
                let found = "the driver reported success and gave nothing";
                write!(f, "expected {requested}: {found}")
            }
            Self::Image { code: CuResult(code), name, log } => {
                write!(f, "the driver refused the device code: {name} ({code})")?;
                if log.is_empty() { Ok(()) } else { write!(f, "\n{log}") }
            }
            Self::OutOfRange { offset, bytes, length_bytes } => write!(
                f,
                "{bytes} bytes from byte {offset} on do not lie in a range of {length_bytes} bytes"
            ),
            Self::ZeroByte { text } => {
                write!(f, "{text:?} holds a zero byte, at which the driver would stop reading")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Why this process has no CUDA driver to call.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unavailable {
    /// The library could not be opened: no driver is installed, or not where the loader looks.
    NoLibrary {
        /// What was opened.
        library: String,
        /// What the loader said.
        reason: String,
    },
    /// The library found is the toolkit's stand-in for linking.
    StubLibrary {
        /// What was opened.
        library: String,
    },
    /// The library lacks a function without which nothing works.
    MissingSymbol {
        /// What was opened.
        library: String,
        /// The function.
        call: &'static str,
    },
    /// The driver works and sees no device.
    NoDevice,
    /// The driver did not start.
    Failed(Error),
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoLibrary { library, reason } => {
                write!(f, "no CUDA driver: `{library}` could not be opened: {reason}")
            }
            Self::StubLibrary { library } => write!(
                f,
                "no CUDA driver: `{library}` is the stub of a CUDA toolkit, meant for linking; \
                 take its folder out of LD_LIBRARY_PATH"
            ),
            Self::MissingSymbol { library, call } => {
                write!(f, "`{library}` is no usable CUDA driver: it has no {call}")
            }
            Self::NoDevice => write!(
                f,
                "the CUDA driver sees no device (is CUDA_VISIBLE_DEVICES empty, or the container \
                 started without GPUs?)"
            ),
            Self::Failed(error) => write!(f, "the CUDA driver did not start: {error}"),
        }
    }
}

impl std::error::Error for Unavailable {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }
}
