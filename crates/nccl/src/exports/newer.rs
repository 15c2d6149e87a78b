//! Functions that NCCL got after 2.30.7, and its registry of parameters, which no program is known
//! to use. They are here so that a program that was linked against a
//! newer version starts, and learns that they are not supported when it calls them.

use super::device::NOBODY;
use crate::abi::Team;

refused! {
    NEWER, "NCCL has it since 2.31 or 2.32; not supported.",
    "came with NCCL 2.31 or 2.32; this library is 2.30.7":
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
    ncclGetMultimemDeviceLeInfo | pncclGetMultimemDeviceLeInfo,
}

refused! {
    PARAMETERS, "Not supported: what can be set here are environment variables.",
    ": there are no parameters to be read by programs; the environment variables that this library \
     reads are in docs/ENVIRONMENT.md":
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
        let all = NEWER.iter().chain(PARAMETERS);
        assert!(all.into_iter().all(|call| call() == Code::InvalidUsage));
        assert_eq!(pncclSetEncryption(), Code::InvalidUsage);
        let text = "ncclSetEncryption came with NCCL 2.31 or 2.32; this library is 2.30.7";
        assert_eq!(last_error::get(), text);
        assert_eq!(ncclParamGetStr(), Code::InvalidUsage);
        assert!(last_error::get().starts_with("ncclParamGetStr : there are no parameters"));
    }
}
