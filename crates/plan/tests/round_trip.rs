//! `decode(encode(p)) == p`, and what decoding says of words that no program encodes to.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Clippy knows test functions, not what they call.

use msccl_collective::{Buffer, Channel, Placement, Protocol, Rank, Slot, StepIndex, TbIndex};
use msccl_ir::{Packing, StepKind, Wait};
use msccl_plan::layout::{self, header};
use msccl_plan::{
    Alias, Average, Counts, Delivery, Geometry, LinkLimits, Operand, Program, Step, Symbol,
    ThreadBlock, decode, encode,
};
use proptest::prelude::*;

fn local(buffer: Buffer, index: u32) -> Operand {
    Operand::Local(Slot::new(buffer, index))
}

fn step(kind: StepKind, sources: &[Operand], destinations: &[Operand]) -> Step {
    Step {
        kind,
        completes: false,
        signals: false,
        waits: Vec::new(),
        sources: sources.to_vec(),
        raw: Vec::new(),
        destinations: destinations.to_vec(),
        count: if sources.is_empty() { 0 } else { 2 },
        bundled: false,
        far: Vec::new(),
    }
}

/// Copies of one chunk that run as one step.
fn bundle(pairs: &[(StepKind, Operand, Operand)]) -> impl Iterator<Item = Step> {
    pairs.iter().enumerate().map(|(at, &(kind, source, destination))| Step {
        count: 1,
        bundled: at > 0,
        ..step(kind, &[source], &[destination])
    })
}

/// A rank with two thread blocks that between them have every shape of step.
fn program() -> Program {
    let (own, other) = (local(Buffer::Output, 4), local(Buffer::Scratch, 0));
    let (from, to) = (Operand::Link(0), Operand::Link(1));
    let wait = Wait { tb: TbIndex(1), step: StepIndex(1) };
    let mut steps = vec![
        step(StepKind::Send, &[local(Buffer::Input, 0)], &[to]),
        step(StepKind::Recv, &[from], &[other]),
        step(StepKind::Copy, &[own], &[other]),
        step(StepKind::Reduce, &[own, other], &[own]),
        step(StepKind::RecvCopySend, &[from], &[own, to]),
        step(StepKind::RecvReduceCopy, &[from, own], &[own]),
        step(StepKind::RecvReduceSend, &[from, own], &[to]),
        step(StepKind::RecvReduceCopySend, &[from, own], &[own, to]),
    ];
    steps[3].completes = true;
    steps[3].raw = vec![true, false];
    steps[6].raw = vec![true, true];
    steps[7].waits = vec![wait];
    let many = step(StepKind::Many, &[own, from, Operand::Link(1)], &[other, Operand::Link(2)]);
    let mut nop = step(StepKind::Nop, &[], &[]);
    nop.signals = true;
    let mut star_steps = vec![many, nop];
    // The first of a bundle waits, the last is waited for.
    let taken = [(StepKind::Recv, from, own), (StepKind::Recv, Operand::Link(1), other)];
    star_steps.extend(bundle(&taken));
    star_steps[2].waits = vec![Wait { tb: TbIndex(0), step: StepIndex(2) }];
    star_steps[3].signals = true;
    steps[2].signals = true;
    steps[5].waits = vec![Wait { tb: TbIndex(1), step: StepIndex(3) }];
    let posted = (StepKind::Send, own, Operand::Link(2));
    star_steps.extend(bundle(&[posted, (StepKind::Copy, other, local(Buffer::Scratch, 1))]));
    star_steps[4].far = vec![None, Some(Slot::new(Buffer::Output, 2))];
    // What comes in is added up and lies at the peer; what goes out is stored at the other.
    steps[6].far =
        vec![Some(Slot::new(Buffer::Input, 9)), None, Some(Slot::new(Buffer::Output, 5))];
    let ring = ThreadBlock {
        channel: Channel(0),
        receives: vec![Rank(2)],
        sends: vec![Rank(1)],
        deliveries: vec![Delivery::Pull { acknowledgement: true }, Delivery::Push],
        steps,
    };
    let star = ThreadBlock {
        channel: Channel(3),
        receives: vec![Rank(1), Rank(2)],
        sends: vec![Rank(1)],
        deliveries: vec![Delivery::Staged; 3],
        steps: star_steps,
    };
    Program {
        rank: Rank(0),
        ranks: 3,
        protocol: Protocol::Ll128,
        placement: Placement::Both,
        alias: Alias::Same,
        geometry: Geometry {
            block_chunks: 6,
            input_chunks: 6,
            output_chunks: 6,
            scratch_chunks: 2,
        },
        threads: Some(512),
        links: LinkLimits {
            depth: 4,
            message_bytes: 1 << 16,
            slice_bytes: 1 << 15,
            packing: Packing::Whole,
            count_limit: 2,
        },
        average: Some(Average { of: 3, completes: true, raw: true }),
        counts: Counts::Any,
        thread_blocks: vec![ring, star],
    }
}

#[test]
fn decoding_gives_back_what_was_encoded() {
    let program = program();
    let words = encode(&program).unwrap();
    assert_eq!(decode(&words).as_ref(), Ok(&program));
}

#[test]
fn common_steps_take_eight_words() {
    let program = program();
    let words = encode(&program).unwrap();
    let block = &program.thread_blocks[0];
    let steps = block.steps.iter().filter(|step| step.far.is_empty()).count();
    let far = 12 * (block.steps.len() - steps);
    let entry = header::LENGTH + layout::tb::STEP_WORDS as usize;
    assert_eq!(words[entry] as usize, 8 * steps + far);
}

#[test]
fn symbols_stand_in_the_order_of_their_ordinals() {
    let program = program();
    let symbols: Vec<_> = program.symbols().collect();
    assert_eq!(symbols[layout::SYMBOL_INPUT as usize], Symbol::Input);
    assert_eq!(symbols[layout::SYMBOL_OUTPUT as usize], Symbol::Output);
    assert_eq!(symbols[layout::SYMBOL_SCRATCH as usize], Symbol::Scratch);
    assert_eq!(symbols[layout::SYMBOL_SIGNALS as usize], Symbol::Signals);
    let links: Vec<_> = program.link_ends().map(Symbol::Link).collect();
    assert_eq!(symbols[layout::SYMBOL_LINKS as usize..], links);
    assert_eq!(links.len(), 5);
}

#[test]
fn links_of_a_pair_are_numbered_by_channel() {
    // From r2 and to r1 on channel 0; from r1, from r2 and to r1 on channel 3.
    assert_eq!(program().link_numbers().collect::<Vec<_>>(), [0, 0, 0, 1, 1]);
}

/// Changes one word and expects decoding to point at `at` and to say `message`.
fn check(change: impl Fn(&mut Vec<u32>), at: usize, message: &str) {
    let mut words = encode(&program()).unwrap();
    change(&mut words);
    let corrupt = decode(&words).unwrap_err();
    assert_eq!((corrupt.word, corrupt.message.as_str()), (at, message));
}

#[test]
fn corrupt_words_are_located() {
    let total = encode(&program()).unwrap().len();
    let at = |word: u32| word as usize;
    check(|words| words.clear(), 0, "the plan ends after 0 words");
    check(|words| words[0] = 7, 0, "the magic number is 0x4e4c504d, found 0x7");
    let cut = format!("the number of words is {:#x}, found {:#x}", total - 1, total);
    check(|words| words.truncate(total - 1), at(header::TOTAL), &cut);
    check(|words| words[at(header::RANK)] = 3, 3, "expected a rank below 3, found 3");
    let claim = format!("4294967295 entries of 8 words do not fit {total} words");
    check(|words| words[at(header::TB_COUNT)] = u32::MAX, header::LENGTH, &claim);
    check(|words| words[at(header::LONGEST_STEP)] = 9, 26, "expected 0x2, found 0x9");
    let counts = at(header::COUNTS);
    check(|words| words[counts] = 2, counts, "expected a value for counts, found 2");
    let stride = at(header::SIGNAL_STRIDE);
    check(|words| words[stride] = 9, stride, "expected 0x8, found 0x9");
}

#[test]
fn corrupt_steps_are_located() {
    let words = encode(&program()).unwrap();
    let first = words[header::LENGTH + layout::tb::FIRST_STEP as usize] as usize;
    let source = first + 3;
    let beyond = "i[5..7] exceeds the buffer's 6 chunks";
    check(|words| words[source] = 5, source, beyond);
    let wrong_end = "expected an outgoing link in 1..2, found link0";
    check(|words| words[source + 1] = 3 << 30, source + 1, wrong_end);
    check(|words| words[first] = 2, first, "expected 0x801, found 0x2");
    // One step has far words.
    let far = first + 6 * 8 + 6;
    let in_scratch = "expected a slot of input or output, found 0x80000000";
    check(|words| words[far] = 2 << 30, far, in_scratch);
    let wait = first + 6 * 8 + 12 + 3;
    let own = "expected a step of another thread block, found tb0 s1";
    check(|words| words[wait] = 1, wait, own);
    let second = header::LENGTH + layout::tb::LENGTH + layout::tb::FIRST_STEP as usize;
    let elsewhere = words[second] as usize;
    let flag = "expected signal flag true, found false";
    check(|words| words[wait] = 1 << 20, elsewhere, flag);
    // After the step of many operands and the one of none.
    let bundle = elsewhere + 8 + 4;
    let pairs = "expected a bundle of at least two copies of one chunk, each from one place to one \
                 other; found 2 sources and 2 destinations of 2 chunks";
    check(|words| words[bundle + 2] = 2, bundle, pairs);
    let table = header::LENGTH + layout::tb::LENGTH + layout::tb::STEPS as usize;
    let more = "expected 5 steps, found more in a bundle";
    let operands = header::LENGTH + layout::tb::FIRST_OPERAND as usize;
    check(|words| words[table] = 5, words[operands] as usize, more);
}

#[test]
fn numbers_beyond_their_field_are_refused() {
    let mut large = program();
    large.thread_blocks[0].steps[0].sources = vec![local(Buffer::Input, 1 << 30)];
    let message = encode(&large).unwrap_err().to_string();
    let expected = "slot: 1073741824 exceeds 536870911, the most that a plan can hold; compile \
                    for a target with smaller limits";
    assert_eq!(message, expected);
}

proptest! {
    #[test]
    fn no_words_cause_a_panic(flips in prop::collection::vec((0_usize..1000, any::<u32>()), 1..4)) {
        let mut words = encode(&program()).unwrap();
        let length = words.len();
        for (at, pattern) in flips {
            // Small patterns too: they keep more of the plan plausible.
            words[at % length] ^= if at % 3 == 0 { pattern } else { pattern % 8 };
        }
        if let Ok(program) = decode(&words) {
            prop_assert_eq!(encode(&program).unwrap(), words);
        }
    }

    #[test]
    fn no_length_causes_a_panic(length in 0_usize..200, tail in any::<u32>()) {
        let mut words = encode(&program()).unwrap();
        words.resize(length, tail);
        words.get_mut(header::TOTAL as usize).into_iter().for_each(|total| *total = length as u32);
        if let Ok(program) = decode(&words) {
            prop_assert_eq!(encode(&program).unwrap(), words);
        }
    }
}
