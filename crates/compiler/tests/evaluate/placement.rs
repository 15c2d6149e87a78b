//! Where ops go: every collective, declared in place or not, compiled in place and out of place.

use msccl_collective::Placement::{self, InPlace, OutOfPlace};
use msccl_compiler::evaluate::Launch;

use super::{dag_for, lines, ops};

fn check(text: &str, placement: Placement, expected: &str) {
    let launch = Launch { placement: Some(placement), ..Launch::default() };
    let dag = dag_for(text, &launch);
    assert_eq!(dag.placement, placement);
    assert_eq!(ops(&dag), lines(expected), "{placement}: {text}");
}

/// An algorithm over three ranks.
fn three(collective: &str, clause: &str, body: &str) -> String {
    format!("algorithm a(ranks N = 3) implements {collective} {clause} {{\n{body}\n}}")
}

#[test]
fn all_reduce_moves_to_output_with_the_first_write() {
    let text = three(
        "allreduce()",
        "in place",
        "input@1[0] += input@0[0]  input@1[0] += input@2[0]  input@0[0] = input@1[0]",
    );
    check(
        &text,
        InPlace,
        "r1.o[0] = r1.o[0] + r0.o[0]
         r1.o[0] = r1.o[0] + r2.o[0]
         r0.o[0] = r1.o[0]",
    );
    check(
        &text,
        OutOfPlace,
        "r1.o[0] = r1.i[0] + r0.i[0]
         r1.o[0] = r1.o[0] + r2.i[0]
         r0.o[0] = r1.o[0]
         r2.o[0] = r2.i[0]",
    );
}

#[test]
fn all_gather_copies_the_own_block_at_the_end() {
    let text = three(
        "allgather(chunks 2)",
        "in place",
        "output@1[0..2] = input@0  output@2[0..2] = output@1[0..2]",
    );
    check(&text, InPlace, "r1.o[0..2] = r0.o[0..2]  \n r2.o[0..2] = r1.o[0..2]");
    check(
        &text,
        OutOfPlace,
        "r1.o[0..2] = r0.i[0..2]
         r2.o[0..2] = r1.o[0..2]
         r0.o[0..2] = r0.i[0..2]
         r1.o[2..4] = r1.i[0..2]
         r2.o[4..6] = r2.i[0..2]",
    );
}

#[test]
fn reduce_scatter_keeps_other_blocks_in_scratch() {
    let text =
        three("reducescatter()", "in place", "input@1[2] += input@0[2]  input@2[2] += input@1[2]");
    check(&text, InPlace, "r1.s[0] = r1.i[2] + r0.i[2] \n r2.i[2] = r2.i[2] + r1.s[0]");
    check(
        &text,
        OutOfPlace,
        "r1.s[0] = r1.i[2] + r0.i[2]
         r2.o[0] = r2.i[2] + r1.s[0]
         r0.o[0] = r0.i[0]
         r1.o[0] = r1.i[1]",
    );
}

#[test]
fn all_to_all_in_place_swaps_through_scratch() {
    let body = "scratch t[1]  t@0 = output@0[1]  output@0[1] = input@1[0]  output@1[0] = t@0";
    let text = three("alltoall()", "in place", body);
    check(
        &text,
        InPlace,
        "r0.s[0] = r0.o[1]
         r0.o[1] = r1.o[0]
         r1.o[0] = r0.s[0]",
    );
    check(
        &text,
        OutOfPlace,
        "r0.s[0] = r0.i[1]
         r0.o[1] = r1.i[0]
         r1.o[0] = r0.s[0]
         r0.o[0] = r0.i[0]
         r0.o[2] = r0.i[2]
         r1.o[1..3] = r1.i[1..3]
         r2.o[0..3] = r2.i[0..3]",
    );
}

#[test]
fn broadcast_lives_in_output() {
    let text = three("broadcast(root 1)", "in place", "output@0 = output@1  output@2 = input@1");
    check(&text, InPlace, "r0.o[0] = r1.o[0] \n r2.o[0] = r1.o[0]");
    check(
        &text,
        OutOfPlace,
        "r0.o[0] = r1.i[0]
         r2.o[0] = r1.i[0]
         r1.o[0] = r1.i[0]",
    );
}

#[test]
fn reduce_accumulates_in_scratch_where_there_is_no_output() {
    let text = three("reduce(root 0)", "in place", "input@1 += input@2  input@0 += input@1");
    check(&text, InPlace, "r1.s[0] = r1.i[0] + r2.i[0] \n r0.o[0] = r0.o[0] + r1.s[0]");
    check(&text, OutOfPlace, "r1.s[0] = r1.i[0] + r2.i[0] \n r0.o[0] = r0.i[0] + r1.s[0]");
}

#[test]
fn gather_has_its_blocks_at_the_root() {
    let text = three("gather(root 1)", "in place", "for r in [0, 2] { output@1[r] = input@r[0] }");
    check(&text, InPlace, "r1.o[0] = r0.i[0] \n r1.o[2] = r2.i[0]");
    check(&text, OutOfPlace, "r1.o[0] = r0.i[0] \n r1.o[2] = r2.i[0] \n r1.o[1] = r1.i[0]");
}

#[test]
fn scatter_leaves_the_root_its_block() {
    let text = three("scatter(root 1)", "in place", "for r in [0, 2] { output@r[0] = input@1[r] }");
    check(&text, InPlace, "r0.o[0] = r1.i[0] \n r2.o[0] = r1.i[2]");
    check(&text, OutOfPlace, "r0.o[0] = r1.i[0] \n r2.o[0] = r1.i[2] \n r1.o[0] = r1.i[1]");
    let text =
        three("scatter(root 1)", "in place", "input@1[1] = input@1[0]  input@1[2] = input@1[1]");
    check(&text, InPlace, "r1.i[1] = r1.i[0] \n r1.s[0] = r1.i[1]");
    check(&text, OutOfPlace, "r1.o[0] = r1.i[0] \n r1.s[0] = r1.o[0]");
}

#[test]
fn custom_collectives_alias_by_index() {
    let text = "collective c() { given input@0[0..3]  promise output@0[0..2] = input@0[1..3] }
        algorithm a(ranks N = 1) implements c() in place {
            input@0[0] = input@0[1]
            output@0[1] = input@0[2]
            input@0[2] = input@0[0]
        }";
    check(text, InPlace, "r0.o[0] = r0.o[1] \n r0.o[1] = r0.i[2] \n r0.s[0] = r0.o[0]");
    check(text, OutOfPlace, "r0.o[0] = r0.i[1] \n r0.o[1] = r0.i[2] \n r0.s[0] = r0.o[0]");
}

#[test]
fn not_in_place_the_input_is_kept_whatever_is_stored_into_it() {
    let text =
        three("allreduce()", "", "input@0 = input@1  output@2 = input@0  input@0 += input@2");
    check(
        &text,
        OutOfPlace,
        "r0.s[0] = r1.i[0]
         r2.o[0] = r0.s[0]
         r0.s[0] = r0.s[0] + r2.i[0]",
    );
}

#[test]
fn a_region_that_lives_in_two_places_is_split() {
    let text = three(
        "allreduce(chunks 4)",
        "in place",
        "input@0[1..3] += input@1[1..3]  input@2 = input@0  input@2 += input@1",
    );
    check(
        &text,
        OutOfPlace,
        "r0.o[1..3] = r0.i[1..3] + r1.i[1..3]
         r2.o[0] = r0.i[0]
         r2.o[1..3] = r0.o[1..3]
         r2.o[3] = r0.i[3]
         r2.o[0..4] = r2.o[0..4] + r1.i[0..4]
         r0.o[0] = r0.i[0]
         r0.o[3] = r0.i[3]
         r1.o[0..4] = r1.i[0..4]",
    );
}

#[test]
fn a_program_for_two_memories_drops_what_is_in_place_already() {
    let text = three("allgather()", "", "for r in 0..N, q in 0..N { output@r[q] = input@q[0] }");
    check(
        &text,
        InPlace,
        "r0.o[1] = r1.o[1]
         r0.o[2] = r2.o[2]
         r1.o[0] = r0.o[0]
         r1.o[2] = r2.o[2]
         r2.o[0] = r0.o[0]
         r2.o[1] = r1.o[1]",
    );
}
