//! Names the library as programs look for it: what was linked against NCCL asks the loader for
//! `libnccl.so.2`, and only a library of that name keeps the loader from mapping another one.
//!
//! Once loaded it stays: threads that watch communicators, and the handler of a signal, would go on
//! in code that is gone.

#![deny(unsafe_code)]

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnccl.so.2");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
