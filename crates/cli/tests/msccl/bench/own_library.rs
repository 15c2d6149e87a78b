//! Our own library.

use super::{bench, ours};
use crate::{arg, msccl};

#[test]
fn our_library_is_right_on_the_host() {
    let Some(ours) = ours() else { return };
    let collectives = [
        "allreduce",
        "allgather",
        "reducescatter",
        "broadcast",
        "reduce",
        "alltoall",
        "sendrecv",
        "gather",
        "scatter",
        "hypercube",
    ];
    for collective in collectives {
        let sizes = ["-b", "8", "-f", "50", "-e", "100K", "-n", "2", "-r", "1", "--odd"];
        let kinds = ["-d", "float,bfloat16,int8", "-o", "sum,avg,mulsum", "-T", "60"];
        let ran = bench(arg(&ours), &[&[collective][..], &sizes, &kinds].concat());
        assert_eq!(ran.code, 0, "{collective}: {ran}");
    }
}

#[test]
fn our_library_takes_registered_buffers() {
    let Some(ours) = ours() else { return };
    for how in ["1", "2"] {
        let ran = bench(arg(&ours), &["allreduce", "-b", "8", "-e", "4K", "-n", "2", "-R", how]);
        assert_eq!(ran.code, 0, "{how}: {ran}");
    }
}

#[test]
fn ranks_can_share_a_process() {
    let Some(ours) = ours() else { return };
    let sizes = ["-b", "8", "-f", "50", "-e", "100K", "-n", "2", "-d", "float,int64", "-T", "60"];
    for collective in ["allreduce", "alltoall", "hypercube"] {
        let usual = ["bench", collective, "--device", "host", "--ranks", "4", "-t", "2"];
        let ran = msccl(&[&usual[..], &sizes, &["--library", arg(&ours)]].concat());
        assert_eq!(ran.code, 0, "{collective}: {ran}");
    }
}
