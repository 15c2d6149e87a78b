//! Programs that ask for too much are stopped, at the place that does, and do not take the thread
//! down with them.

use msccl_compiler::evaluate::Launch;

use super::{check_errors, two_ranks};

#[test]
fn loops_of_too_many_rounds_are_refused() {
    check_errors(
        &two_ranks("for i in 0..1_000_000_000_000 { let x = i }"),
        "2:1 the program's loops have run 64 million rounds by here",
    );
}

#[test]
fn a_loop_of_errors_ends_soon() {
    check_errors(
        &two_ranks("for i in 0..1_000_000_000_000 { output@i[0] = input@0[0] }"),
        "2:40 there is no rank 2",
    );
}

#[test]
fn lists_of_too_many_elements_are_refused() {
    check_errors(
        &two_ranks("let x = [i in 0..100_000_000: i]"),
        "2:9 the program's lists hold more than 16 million elements",
    );
    check_errors(
        "fn twice(l, n) = if n == 0 then l else twice(l + l, n - 1)
         algorithm a(ranks N = 2) implements allreduce() { let x = twice([1], 60) }",
        "1:46 the program's lists hold more than 16 million elements",
    );
}

#[test]
fn recursion_without_end_is_refused() {
    check_errors(
        "fn f(n) = f(n + 1)\nalgorithm a(ranks N = 2) implements allreduce() { let x = f(0) }",
        "1:11 functions call one another more than 256 deep here",
    );
    check_errors(
        "fn f(n) { f(n + 1) }\nalgorithm a(ranks N = 2) implements allreduce() { f(0) }",
        "1:11 functions call one another more than 256 deep here",
    );
    let brackets = |n: usize| format!("{}f(n){}", "[".repeat(n), "]".repeat(n));
    let text = format!(
        "fn f(n) = {}\nalgorithm a(ranks N = 2) implements allreduce() {{ let x = f(0) }}",
        brackets(50)
    );
    check_errors(&text, "1:45 calls and expressions nest more than 800 deep here");
}

/// Nesting of every kind, within functions that never end: refused before the stack is used up.
#[test]
fn recursion_through_all_kinds_of_nesting_fits_the_stack() {
    let binders: Vec<_> = (0..200).map(|i| format!("i{i} in 0..1")).collect();
    let functions = [
        "fn f(n) { if true { for i in 0..1 { on tb 1 { if true { for [j] in [[i]] { f(n) } } } } } \
         }"
            .to_owned(),
        format!("fn f(n) {{ for {} {{ f(n + 1) }} }}", binders.join(", ")),
        "fn f(n) { output@0[g(n)] = sum(i in 0..1: sum(j in 0..1: g(n) + g(n))) }
         fn g(n) = sum(i in 0..1: [j in 0..1: min(g(n) + 1, (if true then g(n + 1) else 2))][0])"
            .to_owned(),
    ];
    for function in functions {
        let text =
            format!("{function}\nalgorithm a(ranks N = 2) implements allreduce() {{ f(0) }}");
        let (sources, result) = super::evaluate_text(&text, &Launch::default());
        let errors = result.map(|dag| super::ops(&dag)).expect_err("endless");
        let shown = super::show(&sources, &errors);
        assert!(shown[0].ends_with("deep here"), "{shown:?}");
    }
}

#[test]
fn recursion_that_ends_is_evaluated() {
    super::check(
        "fn halve(n, r) { output@r[0] = input@r[0]  if n > 1 { halve(n / 2, r + 1) } }
         algorithm a(ranks N = 8) implements allreduce() { halve(N, 0) }",
        "r0.o[0] = r0.i[0]
         r1.o[0] = r1.i[0]
         r2.o[0] = r2.i[0]
         r3.o[0] = r3.i[0]",
    );
}

#[test]
fn programs_that_touch_too_many_chunks_are_refused() {
    check_errors(
        "algorithm a(ranks N = 2) implements broadcast(chunks 60_000_000) {
             output@1 = sum(i in 0..5: input@0)
         }",
        "2:14 with this statement the program touches more than 2^28 chunks",
    );
    check_errors(
        "algorithm a(ranks N = 2) implements broadcast() in place {
             for i in 0..100 { scratch t[100_000_000]  t@1[i] = output@0[0] }
         }",
        "2:56 with this statement the program uses more than 2^28 chunks of scratch",
    );
}

#[test]
fn comparing_lists_of_lists_is_bounded() {
    let text = "fn grow(l, n) = if n == 0 then l else grow([l, l], n - 1)
         algorithm a(ranks N = 2) implements allreduce() {
             require grow([1], 60) == grow([1], 60)
         }";
    check_errors(text, "3:22 the program's loops have run 64 million rounds by here");
    let text = "fn grow(l, n) = if n == 0 then l else grow([l], n - 1)
         algorithm a(ranks N = 2) implements allreduce() { let x = grow([], 100) }";
    check_errors(text, "1:44 lists nest more than 64 deep here");
}
