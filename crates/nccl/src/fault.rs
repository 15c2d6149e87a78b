//! What a call that fails reports to its caller.

use std::fmt;
use std::panic::Location;

use msccl_fabric as fabric;
use msccl_gpu as gpu;
use msccl_runtime as runtime;

use crate::abi::Code;

/// A call that failed: the number that C gets, and the text for `ncclGetLastError` and the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The number.
    pub code: Code,
    /// What was expected, what was found, and what to do.
    pub text: String,
    /// Where this library noticed.
    pub at: &'static Location<'static>,
}

impl Fault {
    /// A failure with `code`.
    #[track_caller]
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), at: Location::caller() }
    }

    /// An argument is wrong.
    #[track_caller]
    pub fn argument(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, text)
    }

    /// The call is legal, but not now or not here.
    #[track_caller]
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidUsage, text)
    }

    /// A fault of this library.
    #[track_caller]
    pub fn internal(text: impl Into<String>) -> Self {
        Self::new(Code::InternalError, text)
    }

    /// `name`, an argument of `operation`, must not be null.
    #[track_caller]
    pub fn null(operation: &str, name: &str) -> Self {
        Self::argument(format!("{operation} : {name} argument is NULL"))
    }

    /// The same, seen while doing `operation`.
    #[must_use]
    pub fn during(self, operation: &str) -> Self {
        Self { text: format!("{operation} : {}", self.text), ..self }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<runtime::Error> for Fault {
    #[track_caller]
    fn from(error: runtime::Error) -> Self {
        Self::new(code_of(&error), error.to_string())
    }
}

/// The number of a runtime's error. Callers of versions before 2.30 know none for a timeout: what a
/// rank did not do in time counts as the fault of that rank.
pub fn code_of(error: &runtime::Error) -> Code {
    match error.kind() {
        runtime::ErrorKind::InvalidArgument => Code::InvalidArgument,
        runtime::ErrorKind::InvalidUsage | runtime::ErrorKind::Aborted => Code::InvalidUsage,
        runtime::ErrorKind::Cuda => Code::UnhandledCudaError,
        runtime::ErrorKind::System => Code::SystemError,
        runtime::ErrorKind::Remote | runtime::ErrorKind::TimedOut => Code::RemoteError,
        runtime::ErrorKind::Internal => Code::InternalError,
    }
}

impl From<fabric::Error> for Fault {
    #[track_caller]
    fn from(error: fabric::Error) -> Self {
        runtime::Error::from(error).into()
    }
}

impl From<gpu::Error> for Fault {
    #[track_caller]
    fn from(error: gpu::Error) -> Self {
        runtime::Error::from(error).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_kind_has_a_number_that_older_callers_do_not_know() {
        let timed_out = runtime::Error::new(runtime::ErrorKind::TimedOut, "r3 did not come");
        let fault = Fault::from(timed_out);
        assert_eq!((fault.code, fault.text.as_str()), (Code::RemoteError, "r3 did not come"));
        assert!(fault.at.file().ends_with("fault.rs"));
    }
}
