//! Rung 1: ranks, chunk counts, byte range and contract.

use msccl_collective::{Buffer, Collective, Contract, Contribution, Custom, Kind, Rank};

use super::{
    CHUNKS_PER_STEP, FREE_CHUNK_MOVES, FREE_SLOTS, MOST_CHUNK_MOVES, MOST_SLOTS, Report,
    ViolationClass,
};
use crate::{Algorithm, Target};

/// Checks everything that the size of an index or of a table depends on.
pub(super) fn check(algorithm: &Algorithm, _target: &Target, report: &mut Report) {
    ranks(algorithm, report);
    chunks(algorithm, report);
    byte_range(algorithm, report);
    if !report.violations.is_empty() {
        return;
    }
    totals(algorithm, report);
    if let Kind::Custom(custom) = &algorithm.collective.kind {
        blocks(algorithm.collective.chunks, custom, report);
        contract(&algorithm.collective, custom, report);
    }
}

fn structure(report: &mut Report, message: impl FnOnce() -> String) {
    report.add(ViolationClass::Structure, None, message);
}

fn ranks(algorithm: &Algorithm, report: &mut Report) {
    let (stated, found) = (algorithm.collective.ranks, algorithm.ranks.len());
    if stated == 0 {
        structure(report, || "a collective needs at least one rank".to_owned());
    }
    if stated as usize != found {
        structure(report, || {
            format!("the collective is over {stated} ranks, but there are programs for {found}")
        });
    }
    if let Some(root) = algorithm.collective.root()
        && root.0 >= stated
    {
        structure(report, || format!("the root is {root}, but there are only {stated} ranks"));
    }
}

fn chunks(algorithm: &Algorithm, report: &mut Report) {
    let collective = &algorithm.collective;
    if collective.chunks == 0 {
        structure(report, || "a block needs at least one chunk".to_owned());
    }
    if collective.ranks.checked_mul(collective.chunks).is_none() {
        structure(report, || {
            let (ranks, chunks) = (collective.ranks, collective.chunks);
            format!("{ranks} ranks of {chunks} chunks each are more than can be numbered")
        });
    }
}

fn byte_range(algorithm: &Algorithm, report: &mut Report) {
    let sizes = algorithm.sizes;
    if let Some(max) = sizes.max_bytes
        && max < sizes.min_bytes
    {
        structure(report, || {
            let min = sizes.min_bytes;
            format!("the byte range is empty: it starts at {min} and ends at {max}")
        });
    }
}

/// Bounds the work of everything downstream.
fn totals(algorithm: &Algorithm, report: &mut Report) {
    let collective = &algorithm.collective;
    let mut slots = 0u64;
    let mut moves = 0u64;
    let steps = algorithm.step_count() as u64;
    for (rank, program) in algorithm.ranks.iter().enumerate() {
        let rank = Rank::from(rank);
        slots += u64::from(collective.input_chunks(rank));
        slots += u64::from(collective.output_chunks(rank));
        slots += u64::from(program.scratch_chunks);
        for step in program.thread_blocks.iter().flat_map(|block| &block.steps) {
            let operands = step.sources.len() + step.destinations.len();
            moves = moves.saturating_add(u64::from(step.count).saturating_mul(operands as u64));
        }
    }
    let allowed = |free: u64, most: u64| most.min(free + CHUNKS_PER_STEP.saturating_mul(steps));
    let most_slots = allowed(FREE_SLOTS, MOST_SLOTS);
    let most_moves = allowed(FREE_CHUNK_MOVES, MOST_CHUNK_MOVES);
    let limits = ViolationClass::Limits;
    if slots > most_slots {
        report.add(limits, None, || {
            format!(
                "the buffers have {slots} chunks in all; with {steps} steps at most {most_slots} \
                 can be checked"
            )
        });
    }
    if moves > most_moves {
        report.add(limits, None, || {
            format!(
                "the steps move {moves} chunks; {steps} steps may move at most {most_moves} to be \
                 checked"
            )
        });
    }
}

fn blocks(chunks: u32, custom: &Custom, report: &mut Report) {
    let Custom { name: _, input_chunks, output_chunks, contract: _ } = custom;
    let whole = |buffer: &u32| buffer.is_multiple_of(chunks);
    if !whole(input_chunks) || !whole(output_chunks) {
        structure(report, || {
            format!(
                "{input_chunks} input and {output_chunks} output chunks are not whole blocks of \
                 {chunks}"
            )
        });
    }
}

fn contract(collective: &Collective, custom: &Custom, report: &mut Report) {
    let Collective { kind: _, ranks, chunks } = *collective;
    let Custom { name: _, input_chunks, output_chunks, contract } = custom;
    let Some(Contract { given, promised }) = contract else { return };
    for &given in given {
        if given.rank.0 >= ranks || given.index >= *input_chunks {
            structure(report, || format!("the contract gives {given}, which does not exist"));
        }
    }
    for (&(rank, index), sum) in promised {
        let slot = Buffer::Output.letter();
        if rank.0 >= ranks || index >= *output_chunks {
            structure(report, || {
                format!("the contract promises {rank}.{slot}[{index}], which does not exist")
            });
        }
        let ordered = sum.is_sorted() && !sum.is_empty();
        if !ordered {
            structure(report, || {
                format!("the contract's sum for {rank}.{slot}[{index}] is empty or not ascending")
            });
        }
        let aside = sum.iter().find(|contribution| contribution.index % chunks != index % chunks);
        if let Some(aside) = aside {
            structure(report, || {
                format!(
                    "the contract promises {aside} in {rank}.{slot}[{index}], but blocks have \
                     {chunks} chunks, and these are not the same one of theirs"
                )
            });
        }
        let missing = sum.iter().find(|contribution: &&Contribution| !given.contains(contribution));
        if let Some(missing) = missing {
            structure(report, || {
                format!(
                    "the contract promises {missing} in {rank}.{slot}[{index}], but it is not given"
                )
            });
        }
    }
}
