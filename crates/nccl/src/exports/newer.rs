//! Functions that NCCL got after 2.30.7, and its registry of parameters, which no program is known
//! to use. They are here so that a program that was linked against a
//! newer version starts, and learns that they are not supported when it calls them.
//!
//! They look at no arguments; the caller removes what it passed, in every calling convention of
//! the hosts that this library is for.

use super::device::NOBODY;
use crate::abi::Team;
use crate::fault::Fault;

macro_rules! newer {
    ($($since:literal: $($name:ident | $twin:ident),+;)*) => {
        exported! {$($(
            #[doc = concat!("NCCL has it since ", $since, "; not supported.")]
            fn $name | $twin() {
                let (name, since) = (stringify!($name), $since);
                let text = format!("{name} came with NCCL {since}; this library is 2.30.7");
                Err::<(), _>(Fault::usage(text))
            }
        )+)*}
    };
}

newer! {
    "2.31 or 2.32":
        ncclAllReduceConfig | pncclAllReduceConfig,
        ncclBroadcastConfig | pncclBroadcastConfig,
        ncclReduceConfig | pncclReduceConfig,
        ncclAllGatherConfig | pncclAllGatherConfig,
        ncclReduceScatterConfig | pncclReduceScatterConfig,
        ncclAlltoAllConfig | pncclAlltoAllConfig,
        ncclGatherConfig | pncclGatherConfig,
        ncclScatterConfig | pncclScatterConfig,
        ncclSetEncryption | pncclSetEncryption,
        ncclGetCftDeviceLeInfo | pncclGetCftDeviceLeInfo,
        ncclGetPeerDeviceLeInfo | pncclGetPeerDeviceLeInfo,
        ncclGetMultimemDeviceLeInfo | pncclGetMultimemDeviceLeInfo;
}

macro_rules! parameters {
    ($($name:ident | $twin:ident),+ $(,)?) => {
        exported! {$(
            /// Not supported: what can be set here are environment variables.
            fn $name | $twin() {
                let name = stringify!($name);
                let text = format!(
                    "{name} : there are no parameters to be read by programs; the environment \
                     variables that this library reads are in docs/ENVIRONMENT.md"
                );
                Err::<(), _>(Fault::usage(text))
            }
        )+}
    };
}

parameters! {
    ncclParamBind | pncclParamBind,
    ncclParamGetI8 | pncclParamGetI8,
    ncclParamGetI16 | pncclParamGetI16,
    ncclParamGetI32 | pncclParamGetI32,
    ncclParamGetI64 | pncclParamGetI64,
    ncclParamGetU8 | pncclParamGetU8,
    ncclParamGetU16 | pncclParamGetU16,
    ncclParamGetU32 | pncclParamGetU32,
    ncclParamGetU64 | pncclParamGetU64,
    ncclParamGetStr | pncclParamGetStr,
    ncclParamGet | pncclParamGet,
    ncclParamGetParameter | pncclParamGetParameter,
    ncclParamGetAllParameterKeys | pncclParamGetAllParameterKeys,
    ncclParamDumpAll | pncclParamDumpAll,
}

exported_with_value! {
    /// NCCL has it since 2.31 or 2.32; the team of nobody.
    fn ncclTeamCft | pncclTeamCft() -> Team, or NOBODY => {
        Ok(NOBODY)
    }

    /// NCCL has it since 2.31 or 2.32; the team of nobody.
    fn ncclTeamCftMultimem | pncclTeamCftMultimem() -> Team, or NOBODY => {
        Ok(NOBODY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::Code;
    use crate::{last_error, log};

    #[test]
    fn newer_functions_say_since_when() {
        let _alone = log::tests::alone();
        assert_eq!(pncclSetEncryption(), Code::InvalidUsage);
        let text = "ncclSetEncryption came with NCCL 2.31 or 2.32; this library is 2.30.7";
        assert_eq!(last_error::get(), text);
        assert_eq!(ncclParamGetStr(), Code::InvalidUsage);
        assert!(last_error::get().starts_with("ncclParamGetStr : there are no parameters"));
    }
}
