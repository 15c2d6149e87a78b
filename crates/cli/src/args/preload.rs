//! `msccl launch`

use std::ffi::OsString;

use clap::{Args, ValueHint};

const EXAMPLES: &str = "\
Examples:
  msccl launch -- python train.py
  msccl launch -- torchrun --nproc-per-node 8 train.py

It sets LD_PRELOAD, VLLM_NCCL_SO_PATH and SGLANG_NCCL_SO_PATH for the program and all processes
that the program starts, and becomes the program. NCCL_DEBUG=INFO says which algorithm serves each
call; `msccl doctor --pid PID` says which library a process has loaded.";

/// `msccl launch`
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct PreloadArgs {
    /// The library; ours if not given (MSCCL_LIBRARY, or libnccl.so.2 beside msccl)
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath)]
    pub library: Option<String>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    #[arg(value_hint = ValueHint::CommandWithArguments)]
    pub program: Vec<OsString>,
}
