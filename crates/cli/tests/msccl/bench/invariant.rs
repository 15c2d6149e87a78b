//! `msccl bench --invariant`: whether bits depend on the call.

use super::{bench, fake, ours};
use crate::{Ran, arg, msccl};

/// All-reduces and reduce-scatters of four ranks, as our own library does them with `variable`.
fn compared(variable: &str, types: &str) -> Option<Ran> {
    let ours = ours()?;
    let args = ["bench", "allreduce,reducescatter", "--invariant", "--library", arg(&ours)];
    let sizes = ["-b", "1K", "-e", "64K", "-f", "8", "-d", types];
    let rest = ["--device", "host", "--ranks", "4", "--env", variable];
    Some(msccl(&[&args[..], &sizes, &rest].concat()))
}

#[test]
fn an_order_has_the_same_bits_in_all_calls() {
    for order in ["MSCCL_ORDER=flat", "MSCCL_ORDER=tree"] {
        let Some(ran) = compared(order, "float,half,f8e4m3") else { return };
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("msccl: the same bits in all"), "{}", ran.stdout);
    }
}

#[test]
fn differences_are_counted_and_fail() {
    let Some(ran) = compared("MSCCL_ORDER=any", "float") else { return };
    assert_eq!(ran.code, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("elements have other bits; "), "{}", ran.stdout);
    assert!(ran.stdout.contains("first the bits"), "{}", ran.stdout);
}

#[test]
fn what_adds_nothing_is_bad_usage() {
    let Some(fake) = fake() else { return };
    let ran = bench(fake, &["allgather", "--invariant"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("expected allreduce, reducescatter or reduce"), "{}", ran.stderr);
}
