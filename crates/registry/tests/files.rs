//! What is made of files.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use msccl_collective::Placement;
use msccl_registry::{File, Registry, Shape};

fn registry(name: &str, text: &str) -> Registry {
    let file = File { name: name.to_owned(), content: Ok(text.as_bytes().to_vec()) };
    Registry::new(Shape { ranks: 4, per_node: 4 }, &[file])
}

/// The placements of what serves of a program.
#[track_caller]
fn check(text: &str, expected: &[Placement]) -> Registry {
    let registry = registry("mine.msccl", text);
    let placements: Vec<_> =
        registry.loaded().iter().map(|entry| entry.verified.algorithm().placement).collect();
    assert_eq!(placements, expected, "{:?}", registry.refused());
    assert!(registry.loaded().iter().all(|entry| entry.name == "mine.msccl"));
    registry
}

const RING: &str = "allreduce(chunks N) in place {
    for step in 0..N-1, c in 0..N { input@((c + step + 1) % N)[c] += input@((c + step) % N)[c] }
    for step in N-1..2*N-2, c in 0..N { input@((c + step + 1) % N)[c] = input@((c + step) % N)[c] }
}";

#[test]
fn a_program_serves_both_placements_where_it_is_proved_for_both() {
    let [inside, outside, both] = [Placement::InPlace, Placement::OutOfPlace, Placement::Both];
    let ring = check(&format!("algorithm ring(ranks N) implements {RING}"), &[inside, outside]);
    let [one, other] = ring.loaded() else { panic!("two entries") };
    assert_ne!(one.fingerprint, other.fingerprint);
    // Written for calls out of place; in place every rank would have overwritten what others read.
    let exchange = "algorithm exchange(ranks N) implements alltoall(chunks 1) {
        for r in 0..N, q in 0..N { output@q[r] = input@r[q] }
    }";
    check(exchange, &[outside]);
    // Of a collective with a root one schedule is for both, or there is one for each that says the
    // same over links.
    let gather = "algorithm star(ranks N) implements gather(chunks 1, root 0) {
        for r in 0..N { output@0[r] = input@r }
    }";
    check(gather, &[both]);
    for clause in ["in place", ""] {
        let direct = format!(
            "algorithm direct(ranks N) implements broadcast(root 0, chunks 1) {clause} {{
                for r in 1..N {{ output@r = input@0 }}
                output@0 = input@0
            }}"
        );
        let found = registry("mine.msccl", &direct).loaded().len();
        assert_eq!(found, 2, "{clause}");
    }
}

#[test]
fn schedules_serve_the_placement_that_they_say() {
    let text = include_str!("../../interchange/tests/malformed/good.xml");
    let file = File { name: "good.xml".to_owned(), content: Ok(text.as_bytes().to_vec()) };
    let registry = Registry::new(Shape { ranks: 2, per_node: 2 }, &[file]);
    let [entry] = registry.loaded() else { panic!("{:?}", registry.refused()) };
    assert_eq!(entry.verified.algorithm().placement, Placement::InPlace);
}

#[test]
fn files_for_other_ranks_are_distinguished() {
    let refused = |text: &str| registry("a", text).refused().to_vec();
    let eight = refused(
        "algorithm a(ranks N = 8) implements allgather(chunks 1) {
             for r in 0..N, q in 0..N { output@q[r] = input@r } }",
    );
    // A program without a fixed number is for as many as there are.
    assert_eq!(eight, []);
    let text = include_str!("../../interchange/tests/malformed/good.xml");
    let [two] = &refused(text)[..] else { panic!("it is refused") };
    assert!(two.is_for_other_ranks);
    assert_eq!(two.to_string(), "a is not used: it is for 2 ranks, and the communicator has 4");
    let [garbage] = &refused("<algo")[..] else { panic!("it is refused") };
    assert!(!garbage.is_for_other_ranks);
}

#[test]
fn an_order_that_is_claimed_is_proved() {
    let [inside, outside] = [Placement::InPlace, Placement::OutOfPlace];
    let two_shot = |order: &str| {
        format!(
            "algorithm two_shot(ranks N) implements allreduce(chunks N) in place order {order} {{
    for r in 0..N {{
        input@r[r] = sum(q in 0..N: input@q[r])
        for q in 0..N if q != r {{ input@q[r] = input@r[r] }}
    }}
}}"
        )
    };
    let flat = check(&two_shot("flat"), &[inside, outside]);
    let without = check(&two_shot("flat").replace("order flat ", ""), &[inside, outside]);
    // The claim is no part of what runs.
    assert_eq!(flat.fingerprint(), without.fingerprint());
    let registry = registry("two_shot.msccl", &two_shot("tree"));
    let [refused] = registry.refused() else { panic!("it is refused") };
    let expected = "\
two_shot.msccl is not used: order: the claimed order is tree, (0+1)+(2+3), but it adds in the \
order 0+1+…+3
 --> two_shot.msccl:1:69
  |
1 | algorithm two_shot(ranks N) implements allreduce(chunks N) in place order tree {
  |                                                                     ^^^^^^^^^^ claimed here
  |
  = hint: `balanced_sum` of the module `balanced` adds in this order
  = hint: a ring adds each chunk in an order of its own
  = hint: without the clause, `msccl verify` says in which order the algorithm adds";
    assert_eq!(refused.to_string(), expected);
}

#[test]
fn lines_at_fault_of_a_program_are_shown() {
    let text = "algorithm wrong(ranks N) implements allreduce(chunks 1) {
    for r in 0..N { output@r = input@r }
}";
    let registry = registry("wrong.msccl", text);
    let [refused] = registry.refused() else { panic!("it is refused") };
    let expected = "\
wrong.msccl is not used: line 2, column 21: output@0[0] lacks input@1[0], input@2[0], input@3[0]
 --> wrong.msccl:2:21
  |
2 |     for r in 0..N { output@r = input@r }
  |                     ^^^^^^^^^^^^^^^^^^ this wrote it last
  |
  = hint: 3 more chunks are wrong, too: output@1[0], output@2[0], output@3[0]";
    assert_eq!(refused.to_string(), expected);
}
