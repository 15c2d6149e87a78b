//! The `msccl` command.

fn main() {}
