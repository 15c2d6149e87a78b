//! The three runtimes as data, each row with its source.
//!
//! Sources are files of the public repositories `microsoft/msccl` (at b23e9cd), named `M`, and
//! `Azure/msccl-executor-nccl` (at c6f6b36), named `E`. Values are those of the defaults; users of
//! the runtimes change some of them, and then what is proved is not about their machine:
//!
//! | variable | what it changes | source |
//! |---|---|---|
//! | `NCCL_BUFFSIZE`, `NCCL_LL_BUFFSIZE`, `NCCL_LL128_BUFFSIZE` | messages and slices, in proportion; 1 MiB is the default of Simple on Arm | M `init.cc`: `computeBuffSizes` |
//! | `NCCL_NTHREADS`, `NCCL_LL128_NTHREADS` | threads, down to 64 and 160; Simple has 256 by default behind slow PCI | M `graph/tuning.cc`: `ncclTopoTuneModel` |
//! | `MSCCL_MAX_NUM_STEPS` (when the executor is built) | steps in a thread block | E `makefiles/common.mk` |
//! | `MSCCL_CONFIG` | ranges of bytes of files, over what they say | M `graph/topo.cc`: `mscclGetAllAlgoFromConfigAndSetInfo` |

use super::rules::{
    FileLimits, Merging, MessageOrder, Proxies, RootedCall, Rounds, Rules, SmallerMessages, Threads,
};
use super::{Limits, LinkShape, Packing, StepForm, Target};

/// One round handles so much of a chunk: `calcBytePerStep()` times the steps of a chunk.
/// M `collectives/device/msccl_interpreter.h`, E `device/msccl_kernel.cu`: `chunkSize`.
const SLICE_BYTES: [u64; 3] = [2 << 20, 32 << 10, 576_000];

/// What both MSCCL interpreters have in common.
const MSCCL_RULES: Rules = Rules {
    runtime: "the first MSCCL runtime",
    // Simple: barrier, `__threadfence_system`, then the count (`prims_simple.h`: `genericOp`,
    // `postPeer`), slice after slice. LL: lines with flags, no fence, stores after the line
    // (`prims_ll.h`: `LLGenericOp`). LL128: the same by warps (`prims_ll128.h`:
    // `recvReduceSendCopy`, `storeRegs`).
    message_order: [MessageOrder::Memory, MessageOrder::Loads, MessageOrder::Loads],
    // `BROADCAST_CHUNKSTEPS` and `REDUCE_CHUNKSTEPS` are 1, `MSCCL_CHUNKSTEPS` and the others 4,
    // and the number of chunks in a message is reckoned with them: M `enqueue.cc`: `computeColl`; E
    // `misc/msccl/msccl_parser.cc` and `msccl_setup.cc`: `mscclSetupCount`.
    smaller_messages: Some(SmallerMessages { divisor: 4 }),
    // With the same constants a slice has one step (`BROADCAST_SLICESTEPS`), in the kernel always
    // two (`MSCCL_SLICESTEPS`): M `enqueue.cc`: `computeColl`, `proxy.cc`: `ncclProxySaveColl`; E
    // `msccl_setup.cc`: `mscclSetupProxyImpl`. The kernel announces the size of a slice at its
    // first step alone (`prims_simple.h`: `waitPeer`), and both proxies look at every step
    // (`transport/net.cc`: `sendProxyProgress`, `recvProxyProgress`).
    proxies: Proxies::CountSmallerSlices,
    rooted_call: RootedCall::AllBlocks,
    // M `graph/topo.cc`: `mscclGetAlgoFromXMLAndSetAlgo`; E `msccl_parser.cc`:
    // `mscclGetAlgoFromXmlFile`. The running count of the block is compared with
    // `MSCCL_MAX_REDUCE_FUSION`. Under Simple the destination becomes one more source, and
    // `ReduceOrCopyMulti` (E: `reduceCopy`) reads 16.
    merging: Some(Merging {
        cut_at: 16,
        sources_max: [15, 16, 16],
        destination_last: [true, false, false],
    }),
    // `MSCCL_MAX_ITER`, `COMPUTE_FLAG`, `GET_WORKINDEX_FROM_FLAG`: one more round is another
    // call's.
    rounds: Some(Rounds { max: 65_536, slice_bytes: SLICE_BYTES }),
    threads: None,
    // `MAX_NODES` is met by the tag after the last one that is kept; `MAX_SUBS` is not checked. M
    // `graph/xml.h`, `xml.cc`: `xmlLoadSub`; E `msccl_parser.h`, `msccl_parser.cc`:
    // `mscclXmlLoadSub`.
    file: Some(FileLimits { elements: 4095, children: 1024 }),
    all_to_all_of_its_own: None,
};

impl Target {
    /// MSCCL XML as the first runtime reads it (NCCL 2.12 based).
    pub fn msccl() -> Self {
        Self {
            name: "msccl",
            form: StepForm::Msccl,
            // M `include/msccl.h`; `int8_t dependentBid`, `int16_t` offsets.
            limits: Limits {
                steps_per_tb: 256,
                tbs_per_rank: 216,
                channels: 32,
                peers_per_channel: 32,
                count: 71,
                waitable_tbs: 128,
                slots: 1 << 15,
            },
            // M `init.cc`: scratch for `maxBytes`, whose default is excluded.
            scratch_call_bytes_max: Some((128 << 20) - 1),
            // `NCCL_STEPS` is 8; a message of Simple takes two slices of two steps.
            simple: LinkShape {
                depth: 2,
                message_bytes: SLICE_BYTES[0],
                packing: Packing::Fitting,
            },
            ll: LinkShape { depth: 8, message_bytes: SLICE_BYTES[1], packing: Packing::Fitting },
            ll128: LinkShape { depth: 8, message_bytes: SLICE_BYTES[2], packing: Packing::Fitting },
            rules: Rules {
                // M `graph/tuning.cc`: `getNthreads`; `enqueue.cc`: `getAlgoInfo` (a warp more
                // under Simple) and `computeColl` (the remainder of the division must be 0);
                // `msccl_interpreter.h`: `tid < numDependences`.
                threads: Some(Threads {
                    default: [256, 512, 640],
                    most: [512, 512, 640],
                    extra: [32, 0, 0],
                    simple_bytes_per_thread: 8,
                }),
                // M `collectives/all_to_all.cc`.
                all_to_all_of_its_own: Some("2D"),
                ..MSCCL_RULES
            },
            ranks_per_node: None,
        }
    }

    /// MSCCL XML as the executor reads it (NCCL 2.23 based) in its default build of 64 steps a
    /// block.
    pub fn executor() -> Self {
        let msccl = Self::msccl();
        // E `include/msccl/msccl_struct.h`, `makefiles/common.mk`.
        let limits = Limits { steps_per_tb: 64, tbs_per_rank: 1024, ..msccl.limits };
        let rules = Rules {
            runtime: "the MSCCL executor",
            // E `msccl_parser.cc`: `sizeMultiplier` is 1 for gather and scatter.
            rooted_call: RootedCall::OneBlock,
            ..MSCCL_RULES
        };
        Self { name: "executor", limits, scratch_call_bytes_max: None, rules, ..msccl }
    }

    /// Our own runtime. `docs/MEMORY.md` and `docs/RUNTIME.md` say how it keeps its rules.
    pub fn native() -> Self {
        Self {
            name: "native",
            form: StepForm::Native,
            limits: Limits {
                steps_per_tb: 1 << 20,
                tbs_per_rank: 1 << 12,
                channels: 1 << 10,
                peers_per_channel: 1 << 12,
                count: 1 << 20,
                waitable_tbs: 1 << 12,
                slots: 1 << 28,
            },
            scratch_call_bytes_max: None,
            simple: LinkShape { depth: 4, message_bytes: 512 << 10, packing: Packing::Whole },
            ll: LinkShape { depth: 8, message_bytes: 16 << 10, packing: Packing::Whole },
            ll128: LinkShape { depth: 8, message_bytes: 120 << 10, packing: Packing::Whole },
            rules: Rules {
                runtime: "our runtime",
                // `kernels/device/step.cuh`: `order_stores`, `run_message`.
                message_order: [MessageOrder::Memory; 3],
                smaller_messages: None,
                proxies: Proxies::CountAsKernels,
                rooted_call: RootedCall::AllBlocks,
                merging: None,
                rounds: None,
                threads: None,
                file: None,
                all_to_all_of_its_own: None,
            },
            ranks_per_node: None,
        }
    }
}
