//! What becomes of nccl-tests' options that mean something else here, or nothing.

use msccl_bench::{Plan, Waiting};

use crate::args::{BenchArgs, NcclTestsArgs};

/// A line for every option that is given and does not do what it does in nccl-tests.
pub fn notes(args: &BenchArgs, plan: &Plan) -> Vec<String> {
    let NcclTestsArgs {
        aggregated: _,
        cycles: _,
        waiting,
        unalign: _,
        cpu_time,
        timestamps: _,
        output_file,
        parallel_init,
        stream_null,
        memory,
        cta_policy,
        device_implementation,
        device_cta_count,
        per_iter_timing,
        per_iter_skip,
    } = &args.of_nccl_tests;
    let is_on = |value: &Option<u32>| value.is_some_and(|value| value > 0);
    let waits = *waiting != Waiting::AtEnd;
    let no_pipeline = plan.method.graph_launches > 0 || args.latency;
    let grows = args.factor.is_some_and(|factor| factor.grows());
    let on_host = plan.machine.gpus().is_none();
    [
        (*cpu_time > 0, "-C shows the time of the host in a column of its own, `host`"),
        (output_file.is_some(), "-J writes JSON of msccl's own form, as --json does"),
        (args.step.is_some() && grows, "-i has no effect: -f is given, and is more than 1"),
        (on_host && args.graph > 0, "-G has no effect: there are no graphs on the host"),
        (waits && no_pipeline, "-z has no effect with -G and --latency"),
        (
            on_host && args.gpus.is_some() && args.ranks.is_some(),
            "-g has no effect: ranks are on the host, and --ranks is given",
        ),
        (
            on_host && args.gpus.is_some() && args.ranks.is_none(),
            "-g counts ranks: they are on the host",
        ),
        (is_on(parallel_init), "-p has no effect: ranks always join at the same time"),
        (is_on(stream_null), "-y has no effect: every rank has a stream of its own"),
        (is_on(memory), "-M has no effect: memory is not measured"),
        (
            cta_policy.is_some(),
            "-x has no effect: communicators have the library's own policy; --env sets variables",
        ),
        (
            is_on(device_implementation),
            "-D has no effect: the library's own functions are measured",
        ),
        (device_cta_count.is_some(), "-V has no effect: the library's own functions are measured"),
        (is_on(per_iter_timing), "-I has no effect: --latency times every call alone"),
        (is_on(per_iter_skip), "-K has no effect: --latency times every call alone"),
    ]
    .into_iter()
    .filter(|(applies, _)| *applies)
    .map(|(_, note)| note.to_owned())
    .collect()
}
