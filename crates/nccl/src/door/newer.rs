//! Functions that NCCL got after 2.28.9. They are here so that a program that was linked against a
//! newer version starts, and learns that they are not supported when it calls them.
//!
//! Most look at no arguments; the caller removes what it passed, in every calling convention of
//! the hosts that this library is for. Those that would make a communicator, or an id of one, say that there is none.

use std::ffi::c_int;

use super::device::NOBODY;
use crate::abi::{CommHandle, ConfigPointer, In, Out, Team, UniqueIdBytes};
use crate::fault::Fault;

fn unsupported(name: &str, since: &str) -> Result<(), Fault> {
    Err(Fault::usage(format!("{name} came with NCCL {since}; this library is 2.28.9")))
}

macro_rules! newer {
    ($($since:literal: $($name:ident | $twin:ident),+;)*) => {
        door! {$($(
            #[doc = concat!("NCCL has it since ", $since, "; not supported.")]
            fn $name | $twin() {
                unsupported(stringify!($name), $since)
            }
        )+)*}
    };
}

door! {
    /// NCCL has it since 2.29.2; not supported.
    fn ncclCommGetUniqueId | pncclCommGetUniqueId(_comm: CommHandle, _id: Out<UniqueIdBytes>) {
        unsupported("ncclCommGetUniqueId", "2.29.2")
    }

    /// NCCL has it since 2.29.2; not supported.
    fn ncclCommGrow | pncclCommGrow(
        _comm: CommHandle, _ranks: c_int, _id: In<UniqueIdBytes>, _rank: c_int,
        _place: Out<CommHandle>, _config: ConfigPointer
    ) {
        unsupported("ncclCommGrow", "2.29.2")
    }
}

newer! {
    "2.29.2":
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

door_with_value! {
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
        let (comm, id, config) =
            (CommHandle::default(), In::of(&UniqueIdBytes([0; 128])), ConfigPointer::none());
        let mut place = CommHandle(7);
        let grown = pncclCommGrow(comm, 4, id, 0, Out::to(&mut place), config);
        assert_eq!((grown, place), (Code::InvalidUsage, CommHandle::default()));
        let text = "ncclCommGrow came with NCCL 2.29.2; this library is 2.28.9";
        assert_eq!(last_error::get(), text);
    }
}
