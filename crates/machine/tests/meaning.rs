//! What a step does, and how a run goes, over plain numbers.

#![deny(unsafe_code)]

use std::collections::VecDeque;
use std::convert::Infallible;

use msccl_collective::{Buffer, Channel, Kind, Rank, Slot, StepIndex, TbIndex};
use msccl_ir::{Algorithm, Place, Step, Wait};
use msccl_machine::{
    Machine, Messages, Outcome, Piece, Reason, TbId, Wiring, execute, latest_ready, pieces, run,
};
use msccl_testkit::by_hand::{StepExt, algorithm, i, o, r, step, t, tb};

/// Digits: combining appends, so the order of combination shows.
#[derive(Default)]
struct Digits {
    memory: [[String; 8]; 3],
    incoming: VecDeque<String>,
    outgoing: Vec<String>,
}

impl Digits {
    fn cell(&mut self, Slot { buffer, index }: Slot) -> &mut String {
        &mut self.memory[buffer as usize][index as usize]
    }
}

impl Machine for Digits {
    type Sum = String;
    type Value = String;
    type Error = Infallible;

    fn read(&mut self, from: Place) -> Result<String, Infallible> {
        Ok(match from {
            Place::Local(slot) => self.cell(slot).clone(),
            Place::Link(_) => self.incoming.pop_front().unwrap_or_default(),
        })
    }

    fn add(&mut self, sum: String, from: Place) -> Result<String, Infallible> {
        Ok(sum + &self.read(from)?)
    }

    fn round(&mut self, sum: String) -> String {
        sum
    }

    fn write(&mut self, to: Place, value: &String) -> Result<(), Infallible> {
        match to {
            Place::Local(slot) => self.cell(slot).clone_from(value),
            Place::Link(_) => self.outgoing.push(value.clone()),
        }
        Ok(())
    }
}

/// Executes `step` where input slot `n` holds `n` and messages `a`, `b`, … wait; returns the first
/// output slots and what was sent.
#[track_caller]
fn check(step: &Step, output: &[&str], sent: &[&str]) {
    let mut machine = Digits::default();
    for index in 0..8 {
        *machine.cell(Slot::new(Buffer::Input, index)) = index.to_string();
        machine.incoming.push_back(char::from(b'a' + index as u8).to_string());
    }
    let Ok(()) = execute(step, 0..step.count, &mut machine);
    let end = &machine.memory[Buffer::Output as usize];
    assert_eq!(end[..output.len()], *output);
    assert_eq!(machine.outgoing, sent);
}

#[test]
fn sources_combine_in_the_order_written() {
    check(&step(&[i(3)], &[o(0)]), &["3", ""], &[]);
    check(&step(&[r(1), i(3)], &[o(0)]), &["a3"], &[]);
    check(&step(&[i(3), r(1), i(2)], &[o(1), r(1)]), &["", "3a2"], &["3a2"]);
}

#[test]
fn a_counted_step_goes_chunk_by_chunk() {
    check(
        &step(&[r(1), i(2)], &[o(1), r(1)]).times(3),
        &["", "a2", "b3", "c4"],
        &["a2", "b3", "c4"],
    );
    check(&step(&[i(1), i(2)], &[o(0)]).times(2), &["12", "23"], &[]);
}

#[test]
fn a_step_without_operands_does_nothing() {
    check(&Step::default(), &[""], &[]);
}

#[test]
fn a_counted_step_is_cut_into_messages() {
    let cut = |step: &Step, chunks| pieces(step, chunks).collect::<Vec<_>>();
    let send = step(&[i(0)], &[r(1)]).times(5);
    assert_eq!(cut(&send, 2), [0..2, 2..4, 4..5]);
    assert_eq!(cut(&send, 9), vec![0..5]);
    assert_eq!(cut(&step(&[i(0)], &[o(0)]).times(5), 2), vec![0..5], "no link, one piece");
    assert_eq!(cut(&Step::default(), 2), vec![0..0]);
}

/// Rank 0 sends `count` chunks to rank 1 in one step, and rank 1 as many back, both sending first.
fn exchange(count: u32) -> Algorithm {
    let rank = |peer| {
        let send = step(&[i(0)], &[r(peer)]).times(count);
        let receive = step(&[r(peer)], &[t(0)]).times(count);
        let copy = step(&[t(0)], &[o(0)]).times(count).after(0, 1);
        vec![tb(0, vec![send, receive]), tb(1, vec![copy])]
    };
    algorithm(Kind::AllReduce, count, vec![rank(1), rank(0)])
}

/// Runs it with every policy; they must agree on the outcome and fire the same pieces.
#[track_caller]
fn run_all(algorithm: &Algorithm, messages: Messages) -> Outcome {
    let wiring = Wiring::new(algorithm).expect("wired");
    let policies: [fn(usize) -> usize; 3] = [latest_ready, |_| 0, |ready| ready / 2];
    let mut runs = policies.map(|policy| {
        let mut fired = Vec::new();
        let ran = run(&wiring, messages, policy, |piece: Piece| {
            fired.push((piece.tb, piece.step, piece.chunks.start));
            Ok::<_, Infallible>(())
        });
        let Ok(outcome) = ran;
        fired.sort_unstable();
        (outcome, fired)
    });
    let [first, second, third] = &mut runs;
    assert_eq!(first, second);
    assert_eq!(first, third);
    runs.into_iter().next().expect("three runs").0
}

fn messages(chunks_per_message: u32, depth: u32) -> Messages {
    Messages { chunks_per_message, depth }
}

#[test]
fn a_run_completes_if_the_links_hold_enough() {
    let completed = Outcome::Completed { leftover: Vec::new() };
    assert_eq!(run_all(&exchange(3), messages(1, 3)), completed);
    assert_eq!(run_all(&exchange(3), messages(2, 2)), completed);
    assert_eq!(run_all(&exchange(3), messages(3, 1)), completed);
}

#[test]
fn a_stall_says_who_waits_for_whom() {
    let algorithm = exchange(3);
    let Outcome::Stalled(stall) = run_all(&algorithm, messages(1, 2)) else {
        panic!("three messages do not fit a depth of two");
    };
    assert_eq!(stall.blocked.len(), 4);
    assert_eq!(stall.blocked[0].messages_done, 2);
    let copy = Wait { tb: TbIndex(0), step: StepIndex(1) };
    assert_eq!(stall.blocked[1].reasons, [(Reason::Signal(copy), TbId(0))]);
    let wiring = Wiring::new(&algorithm).expect("wired");
    let chain: Vec<_> =
        stall.chain(&wiring).into_iter().map(|(at, why)| (at.at.rank, why)).collect();
    let room = |to| Reason::Room { to: Rank(to), channel: Channel(0), in_flight: 2 };
    assert_eq!(chain, [(Rank(0), room(1)), (Rank(1), room(0))]);
    assert_eq!(
        room(1).to_string(),
        "waits for room on its link to r1 on ch0 (2 of 2 messages in flight)"
    );
}

#[test]
fn a_message_that_no_step_receives_is_left_over() {
    let sender = vec![tb(0, vec![step(&[i(0)], &[r(1)]), step(&[i(0)], &[r(1)])])];
    let receiver = vec![tb(0, vec![step(&[r(0)], &[o(0)])])];
    let algorithm = algorithm(Kind::AllReduce, 1, vec![sender, receiver]);
    let outcome = run_all(&algorithm, messages(1, 2));
    let Outcome::Completed { leftover } = outcome else { panic!("completes") };
    assert_eq!(leftover.len(), 1);
    assert_eq!(leftover[0].1, 1);
}

#[test]
fn who_waits_for_a_finished_block_is_a_chain_of_one() {
    let sender = vec![tb(0, vec![step(&[i(0)], &[r(1)])])];
    let receive = || step(&[r(0)], &[o(0)]);
    let receiver = vec![tb(0, vec![receive(), receive()])];
    let algorithm = algorithm(Kind::AllReduce, 1, vec![sender, receiver]);
    let Outcome::Stalled(stall) = run_all(&algorithm, messages(1, 2)) else {
        panic!("the second message never comes");
    };
    let wiring = Wiring::new(&algorithm).expect("wired");
    let chain = stall.chain(&wiring);
    assert_eq!(chain.len(), 1);
    assert_eq!(chain[0].1, Reason::Message { from: Rank(0), channel: Channel(0) });
}

#[test]
fn a_link_without_partner_is_not_wired() {
    let mut algorithm = exchange(1);
    algorithm.ranks[1].thread_blocks[0].receives.clear();
    let unwired = Wiring::new(&algorithm).expect_err("no receiver");
    assert_eq!((unwired.from, unwired.to, unwired.channel), (Rank(0), Rank(1), Channel(0)));
}
