//! Part of rung 5: what the runtime has no room for, refuses, or takes for something else.

use msccl_collective::{Kind, Protocol, Rank, StepIndex, TbIndex};

use super::{Report, Tb, ViolationClass};
use crate::{Algorithm, FileLimits, Rules, StepKind, StepRef, Target, Threads};

/// Checks [`Rules`] that speak of an algorithm as a whole or of waits.
pub(super) fn check(algorithm: &Algorithm, target: &Target, report: &mut Report) {
    let Rules {
        runtime,
        message_order: _,
        smaller_messages: _,
        proxies: _,
        rooted_call: _,
        merging: _,
        rounds: _,
        threads,
        file,
        all_to_all_of_its_own,
    } = &target.rules;
    if let Some(name) = all_to_all_of_its_own
        && algorithm.collective.kind == Kind::AllToAll
        && algorithm.name == *name
    {
        limits(report, None, || {
            format!("{runtime} runs code of its own for an all-to-all named `{name}`; rename it")
        });
    }
    between_nodes(algorithm, target, report);
    if let Some(threads) = threads {
        thread_count(algorithm, target, *threads, report);
        waits(algorithm, target, report);
    }
    if let Some(file) = file {
        elements(algorithm, runtime, *file, report);
    }
}

fn limits(report: &mut Report, at: Option<StepRef>, message: impl FnOnce() -> String) {
    report.add(ViolationClass::Limits, at, message);
}

/// Messages between nodes that never arrive.
fn between_nodes(algorithm: &Algorithm, target: &Target, report: &mut Report) {
    let Algorithm { collective, protocol, .. } = algorithm;
    if !target.rules.stalls_between_nodes(&collective.kind, *protocol) {
        return;
    }
    let first = algorithm.thread_blocks().find_map(|(rank, tb, block)| {
        block.steps.iter().enumerate().find_map(|(step, code)| {
            let peer = code.sends().find(|&peer| target.crosses_nodes(rank, peer))?;
            Some((StepRef { rank, tb, step: StepIndex::from(step) }, peer))
        })
    });
    let Some((at, peer)) = first else { return };
    limits(report, Some(at), || {
        format!(
            "sends to {peer} on another node: under {protocol} the proxies of {} reckon with other \
             slices of a broadcast or reduce than its kernel has, and wait for ever; use LL or \
             LL128, or keep it within a node",
            target.rules.runtime
        )
    });
}

/// Under Simple the bytes of a round must be divisible by what the threads handle at once.
fn thread_count(algorithm: &Algorithm, target: &Target, rule: Threads, report: &mut Report) {
    let Some(threads) = algorithm.threads.filter(|&threads| threads > 0) else { return };
    let protocol = algorithm.protocol;
    let round = target.packing_link(&algorithm.collective.kind, protocol).message_bytes;
    let [most, ..] = rule.most;
    let at_once = u64::from(threads.min(most)) * rule.simple_bytes_per_thread;
    if protocol == Protocol::Simple && !round.is_multiple_of(at_once) {
        limits(report, None, || {
            format!(
                "{threads} threads: under {protocol} {} fails every call unless 8 bytes a thread \
                 divide its {round} bytes of a round; use a power of two",
                target.rules.runtime
            )
        });
    }
}

/// Thread `i` looks after wait `i` of a step and of the no-ops before it.
fn waits(algorithm: &Algorithm, target: &Target, report: &mut Report) {
    let most = target.rules.waits_max(algorithm.protocol, algorithm.threads);
    let Some(most) = most else { return };
    for (rank, tb, block) in algorithm.thread_blocks() {
        let mut waits = 0;
        for (index, step) in block.steps.iter().enumerate() {
            waits += step.waits.len();
            if step.kind() == StepKind::Nop {
                continue;
            }
            if waits > most as usize {
                let at = StepRef { rank, tb, step: StepIndex::from(index) };
                limits(report, Some(at), || {
                    format!(
                        "waits for {waits} steps, no-ops before it included, but {} has {most} \
                         threads that wait and drops the other waits; give it more threads, or \
                         put another step between the no-ops",
                        target.rules.runtime
                    )
                });
            }
            waits = 0;
        }
    }
}

/// Elements that the reader of files keeps for each rank.
fn elements(algorithm: &Algorithm, runtime: &str, file: FileLimits, report: &mut Report) {
    let FileLimits { elements, children } = file;
    let ranks = algorithm.ranks.len();
    if ranks > children as usize {
        limits(report, None, || {
            format!("{ranks} gpus, but {runtime} has room for {children} elements in one")
        });
    }
    for (rank, program) in algorithm.ranks.iter().enumerate() {
        let blocks = &program.thread_blocks;
        let steps: usize = blocks.iter().map(|block| block.steps.len()).sum();
        let kept = (1 + ranks + blocks.len() + steps) as u64;
        if kept > elements {
            limits(report, None, || {
                format!(
                    "{} needs {kept} elements of the file (`algo`, every `gpu`, its own `tb` and \
                     `step`), but {runtime} keeps {elements}",
                    Rank::from(rank)
                )
            });
        }
        for (tb, block) in blocks.iter().enumerate() {
            if block.steps.len() > children as usize {
                let at = Tb(Rank::from(rank), TbIndex::from(tb));
                let steps = block.steps.len();
                limits(report, None, || {
                    format!(
                        "{at} has {steps} steps, but {runtime} has room for {children} elements in \
                         one"
                    )
                });
            }
        }
    }
}
