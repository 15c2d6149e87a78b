//! Functions that NCCL got after 2.28.9. They are here so that a program that was linked against a
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
                let text = format!("{name} came with NCCL {since}; this library is 2.28.9");
                Err::<(), _>(Fault::usage(text))
            }
        )+)*}
    };
}

newer! {
    "2.29.2":
        ncclCommGetUniqueId | pncclCommGetUniqueId,
        ncclCommGrow | pncclCommGrow,
        ncclPutSignal | pncclPutSignal,
        ncclSignal | pncclSignal,
        ncclWaitSignal | pncclWaitSignal,
        ncclWinGetUserPtr | pncclWinGetUserPtr,
        ncclCommQueryProperties | pncclCommQueryProperties,
        ncclGetLsaDevicePointer | pncclGetLsaDevicePointer,
        ncclGetLsaMultimemDevicePointer | pncclGetLsaMultimemDevicePointer,
        ncclGetMultimemDevicePointer | pncclGetMultimemDevicePointer,
        ncclGetPeerDevicePointer | pncclGetPeerDevicePointer;
    "2.29.7":
        ncclCommSuspend | pncclCommSuspend,
        ncclCommResume | pncclCommResume,
        ncclCommMemStats | pncclCommMemStats;
    "2.30":
        ncclGinInboxA2ACreateRequirement | pncclGinInboxA2ACreateRequirement,
        ncclGinOutboxCreateRequirement | pncclGinOutboxCreateRequirement,
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
        ncclParamDumpAll | pncclParamDumpAll;
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
        assert_eq!(pncclCommGrow(), Code::InvalidUsage);
        let text = "ncclCommGrow came with NCCL 2.29.2; this library is 2.28.9";
        assert_eq!(last_error::get(), text);
    }
}
