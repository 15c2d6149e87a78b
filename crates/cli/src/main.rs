//! The `msccl` command: all of it is in the library beside it.

#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    msccl_cli::main()
}
