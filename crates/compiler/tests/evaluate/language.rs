//! What statements and expressions mean, one op a line.

use super::{check, dag, dag_for, ops, two_ranks};
use msccl_compiler::evaluate::Launch;

#[test]
fn copies_reduces_and_sums() {
    check(
        &two_ranks(
            "output@1 = input@0  output@1[0] += input@1[0]  output@0[1] = input@0[1] + input@1[1]",
        ),
        "r1.o[0..2] = r0.i[0..2]
         r1.o[0] = r1.o[0] + r1.i[0]
         r0.o[1] = r0.i[1] + r1.i[1]",
    );
}

#[test]
fn the_ring_of_the_first_page() {
    check(
        "algorithm ring(ranks N = 3, C = 2) implements allreduce(chunks N) in place {
            for step in 0..N-1, c in 0..N on channel c % C {
                input@((c + step + 1) % N)[c] += input@((c + step) % N)[c]
            }
        }",
        "r1.o[0] = r1.o[0] + r0.o[0] on channel 0
         r2.o[1] = r2.o[1] + r1.o[1] on channel 1
         r0.o[2] = r0.o[2] + r2.o[2] on channel 0
         r2.o[0] = r2.o[0] + r1.o[0] on channel 0
         r0.o[1] = r0.o[1] + r2.o[1] on channel 1
         r1.o[2] = r1.o[2] + r0.o[2] on channel 0",
    );
}

#[test]
fn sums_over_many_sources_are_one_op() {
    check(
        "algorithm a(ranks N = 4) implements reduce() {
            output@0[0] = input@0[0] + sum(q in 0..N if q != 0: input@q[0])
        }",
        "r0.o[0] = r0.i[0] + r1.i[0] + r2.i[0] + r3.i[0]",
    );
}

#[test]
fn a_sum_without_terms_adds_nothing() {
    check(
        "algorithm a(ranks N = 1) implements allreduce() {
            output@0[0] = input@0[0]
            output@0[0] += sum(q in 1..N: input@q[0])
            let none = sum(q in 1..N: input@q[0])
            output@0[0] = input@0[0] + none
            require none == 0
        }",
        "r0.o[0] = r0.i[0]
         r0.o[0] = r0.i[0]",
    );
}

#[test]
fn self_copies_and_empty_regions_leave_no_op() {
    check(
        &two_ranks("output@0 = input@0  output@0 = output@0  output@0[1..1] = input@1[2..2]"),
        "r0.o[0..2] = r0.i[0..2]",
    );
}

#[test]
fn inner_hints_override_outer_ones() {
    check(
        &two_ranks(
            "on channel 1, tb 5 {
                 output@0[0] = input@1[0]
                 output@0[1] = input@1[1] on channel 2, send tb 7
                 on receive tb 3 { output@1[0] = input@0[0] }
             }
             output@1[1] = input@0[1]",
        ),
        "r0.o[0] = r1.i[0] on channel 1, send tb 5, receive tb 5
         r0.o[1] = r1.i[1] on channel 2, send tb 7, receive tb 5
         r1.o[0] = r0.i[0] on channel 1, send tb 5, receive tb 3
         r1.o[1] = r0.i[1]",
    );
}

#[test]
fn functions_take_regions_buffers_and_lists() {
    check(
        "fn next(r, n) = (r + 1) % n
         fn pass(group, buffer, hops = 1) {
             for hop in 0..hops, i in 0..len(group) {
                 buffer@(group[next(i, len(group))])[0] += buffer@(group[i])[0]
             }
         }
         algorithm a(ranks N = 4) implements allreduce() in place {
             pass([0, 2], input)  pass([1, 3], input, 1) on channel 1
         }",
        "r2.o[0] = r2.o[0] + r0.o[0]
         r0.o[0] = r0.o[0] + r2.o[0]
         r3.o[0] = r3.o[0] + r1.o[0] on channel 1
         r1.o[0] = r1.o[0] + r3.o[0] on channel 1",
    );
}

#[test]
fn ops_know_the_calls_that_led_to_them() {
    let text = "fn inner(r) { output@r[0] = input@r[0] }
                fn outer() { inner(0) inner(1) }
                algorithm a(ranks N = 2) implements allreduce() { outer() }";
    let dag = dag(text);
    let called_from = |op: usize| {
        let origin = &dag.statements[dag.ops[op].statement.0 as usize];
        let texts = origin.called_from.iter();
        texts.map(|span| &text[span.start as usize..span.end as usize]).collect::<Vec<_>>()
    };
    assert_eq!(called_from(0), ["inner(0)", "outer()"]);
    assert_eq!(called_from(1), ["inner(1)", "outer()"]);
}

#[test]
fn scratch_is_fresh_each_time_and_only_what_is_used_counts() {
    let dag = dag(&two_ranks(
        "for c in 0..2 {
             scratch t[100]
             t@0[40 + c] = input@1[c]
             output@0[c] = t@0[40 + c]
         }
         scratch unused[50]",
    ));
    assert_eq!(
        ops(&dag),
        ["r0.s[0] = r1.i[0]", "r0.o[0] = r0.s[0]", "r0.s[1] = r1.i[1]", "r0.o[1] = r0.s[1]"]
    );
    assert_eq!(dag.scratch_chunks, [2, 0]);
}

#[test]
fn scratch_counts_from_lowest_to_highest_chunk() {
    let dag = dag(&two_ranks(
        "scratch t[10]  t@1[7] = input@0[0]  t@1[3] = input@0[1]  output@1[0] = t@1[7]",
    ));
    assert_eq!(ops(&dag), ["r1.s[4] = r0.i[0]", "r1.s[0] = r0.i[1]", "r1.o[0] = r1.s[4]"]);
    assert_eq!(dag.scratch_chunks, [0, 5]);
}

/// Truths of the language, one a line.
const TRUTHS: &str = "
    7 / 2 == 3 and -7 / 2 == -4 and 7 % 3 == 1 and -1 % 8 == 7 and 7 % -8 == -1
    2 ** 10 == 1024 and 2 ** 3 ** 2 == 512 and -2 ** 2 == -4
    1 << 4 | 3 == 19 and (6 ^ 3) == 5 and (6 & 3) == 2 and -8 >> 1 == -4
    1_000 == 1000 and 2KiB == 2048
    (if 1 < 2 then 3 else 4) == 3
    false or not false and true
    false and 1 / 0 == 0 or true
    len(2..5) == 3 and len(5..2) == 0 and len([]) == 0 and len([1] + (2..4)) == 3
    [i in 0..4 if i != 2: i * i] == [0, 1, 9]
    [i in 0..2, j in i..2: i * 10 + j] == [0, 1, 11]
    [[a, b] in [[1, 2], [3, 4]]: a * b] == [2, 12]
    (3..9)[2] == 5 and (3..9)[1..3] == [4, 5] and [5, 6, 7][1..3] == [6, 7]
    0..3 == [0, 1, 2] and [] == 4..4 and 3..3 == 9..9
    sum(i in 0..5: i) == 10 and sum(i in 0..0: i) == 0
    min(3, -4) == -4 and max(3, -4) == 3 and abs(-4) == 4
    log2(1) == 0 and log2(9) == 3 and ceil_log2(1) == 0 and ceil_log2(8) == 3 and ceil_log2(9) == 4
    is_power_of_two(8) and not is_power_of_two(12) and not is_power_of_two(0)
    gcd(12, 18) == 6 and gcd(0, 5) == 5
    reverse([1, 2, 3]) == [3, 2, 1] and reverse(0..3) == [2, 1, 0]
    position([4, 5, 6], 6) == 2 and position(4..7, 6) == 2
    contains([4, 5], 5) and not contains(4..6, 6) and contains([[1, 2]], [1, 2])
    bit_reverse(1, 3) == 4 and bit_reverse(6, 3) == 3 and bit_reverse(0, 0) == 0
    count(input@1) == 4 and count(input@1[1..3]) == 2 and count(input@0[0..3][1]) == 1
    input@1[1..3][1] == input@1[2] and input@1[0] != input@0[0]
    node(5) == 1 and local(5) == 1 and rail(5) == 1 and nodes() == 2 and per_node() == 4
    neighbours(5) == [4, 6, 7] and rank_at(1, 3) == 7
";

#[test]
fn expressions_evaluate_to_their_values() {
    for truth in super::lines(TRUTHS) {
        let text = format!(
            "algorithm a(ranks N = 8, per_node G = 4) implements allreduce(chunks 4) {{
                 require {truth}
             }}"
        );
        assert_eq!(dag(&text).ops, [], "{truth}");
    }
}

#[test]
fn the_launch_counts_for_more_than_the_program() {
    let text = "algorithm first(ranks N) implements allreduce() {}
                algorithm a(ranks N = 2, C = N + 1) implements broadcast(root N - 1, chunks C)
                    protocol LL bytes 0..64KiB threads 256 {}";
    let dag = dag(text);
    assert_eq!(
        dag.to_string(),
        "a: broadcast over 2 ranks, root r1, 3 chunks a block, out of place, LL, \
         0..=65535 bytes, 1 instances, 0 scratch chunks\n"
    );
    assert_eq!(dag.threads, Some(256));
    let launch = Launch {
        ranks: Some(5),
        params: vec![("C".to_owned(), 7)],
        protocol: Some(msccl_collective::Protocol::Ll128),
        threads: Some(64),
        ..Launch::default()
    };
    let dag = dag_for(text, &launch);
    assert_eq!(
        dag.to_string(),
        "a: broadcast over 5 ranks, root r4, 7 chunks a block, out of place, LL128, \
         0..=65535 bytes, 1 instances, 0 scratch chunks\n"
    );
    assert_eq!(dag.threads, Some(64));
    let launch =
        Launch { algorithm: Some("first".to_owned()), ranks: Some(3), ..Launch::default() };
    assert_eq!(dag_for(text, &launch).name, "first");
}

#[test]
fn without_a_parameter_the_launch_says_what_a_node_is() {
    let text = "algorithm a(ranks N = 8) implements allreduce() { require nodes() == 4 }";
    let launch = Launch { per_node: Some(2), ..Launch::default() };
    assert_eq!(dag_for(text, &launch).ops, []);
    let text = "algorithm a(ranks N = 8) implements allreduce() { require nodes() == 1 }";
    assert_eq!(dag(text).ops, []);
}

#[test]
fn a_custom_collective_is_its_conditions() {
    let dag = dag("collective shift(ranks N, chunks = 1) {
             for r in 0..N { given input@r[0..chunks] }
             for r in 0..N { promise output@((r + 1) % N)[1..chunks + 1] = input@r[0..chunks] }
         }
         algorithm a(ranks N = 3) implements shift(chunks 2) {
             for r in 0..N { output@((r + 1) % N)[1..3] = input@r }
         }");
    assert_eq!(dag.collective.to_string(), "shift over 3 ranks, 2 → 3 chunks");
    assert_eq!(
        ops(&dag),
        ["r1.o[1..3] = r0.i[0..2]", "r2.o[1..3] = r1.i[0..2]", "r0.o[1..3] = r2.i[0..2]"]
    );
    assert_eq!(msccl_compiler::chunk::check_promise(&dag), Ok(()));
}

#[test]
fn ranges_with_steps() {
    check(
        "algorithm a(ranks N = 5) implements allgather() in place {
            for k in reverse(0..ceil_log2(N)), i in 0..N-2**k by 2**(k + 1) {
                output@(i + 2**k)[0] = output@i[0]
            }
        }",
        "r4.o[0] = r0.o[0]
         r2.o[0] = r0.o[0]
         r1.o[0] = r0.o[0]
         r3.o[0] = r2.o[0]",
    );
}

/// Steps are values like lists; those of 1 are plain ranges and cut regions.
#[test]
fn what_ranges_with_steps_are() {
    check(
        &two_ranks(
            "let odd = 1..10 by 2
             require odd == [1, 3, 5, 7, 9] and len(odd) == 5 and odd[2] == 5
             require odd[1..3] == [3, 5] and odd + [11] == 1..12 by 2
             require position(odd, 7) == 3 and not contains(odd, 2) and not contains(odd, 11)
             require reverse(odd) == [9, 7, 5, 3, 1] and reverse(reverse(odd)) == odd
             require reverse(0..3)[0] == 2 and reverse(reverse(0..3)) == 0..3
             require sum(i in 0..10 by 5: i) == 5 and [i in 0..10 by 4: i] == [0, 4, 8]
             require 5..2 by 3 == [] and 0..4 by 1 == 0..4 and 0..3 by 1 + 1 == [0, 2]
             output@1[0..2 by 1] = input@0",
        ),
        "r1.o[0..2] = r0.i[0..2]",
    );
}
