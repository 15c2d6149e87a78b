//! Why a certificate does not hold.

use std::fmt;

use msccl_bounds::WitnessError;
use num_rational::Ratio;

use crate::step_fault::StepFault;

/// Why a certificate does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CertificateError {
    /// A line does not say what it should.
    Unreadable {
        /// The line, from 1; that of the last line of the certificate if one is missing.
        line: usize,
        /// What should stand there.
        expected: String,
        /// What stands there.
        found: String,
    },
    /// It is about another call, or another machine.
    OtherCall {
        /// What it is about.
        claimed: String,
        /// What the schedule is.
        found: String,
    },
    /// The busiest link takes another time.
    OtherTime {
        /// What it says, in seconds per byte.
        claimed: Ratio<u128>,
        /// What was counted.
        counted: Ratio<u128>,
    },
    /// The witness does not show the bound.
    Witness(WitnessError),
    /// What is said of steps is not so.
    Steps(StepFault),
}

impl CertificateError {
    /// The line of the text, if it is about one.
    pub fn line(&self) -> Option<usize> {
        match self {
            CertificateError::Unreadable { line, .. } => Some(*line),
            CertificateError::OtherCall { .. }
            | CertificateError::OtherTime { .. }
            | CertificateError::Witness(_)
            | CertificateError::Steps(_) => None,
        }
    }
}

impl fmt::Display for CertificateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { line: _, expected, found } => {
                write!(f, "certificate: expected {expected}, found `{found}`")
            }
            Self::OtherCall { claimed, found } => {
                write!(f, "the certificate is about {claimed}, and this is {found}")
            }
            Self::OtherTime { claimed, counted } => write!(
                f,
                "the certificate says that the busiest link takes {claimed} s/byte, and it takes \
                 {counted}; the program or the machine is another one"
            ),
            Self::Witness(error) => write!(f, "the witness of the certificate: {error}"),
            Self::Steps(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for CertificateError {}
