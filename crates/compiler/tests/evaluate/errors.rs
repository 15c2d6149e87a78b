//! What is refused, and where.

use super::{check_errors, check_errors_for, two_ranks};
use msccl_collective::Placement;
use msccl_compiler::evaluate::Launch;

/// Statements for two ranks with two chunks each, and the error each must have. The statement
/// stands in line 2, from column 1 on.
const STATEMENTS: &[(&str, &str)] = &[
    ("output@2[0] = input@0[0]", "2:8 there is no rank 2"),
    ("output@(0 - 1)[0] = input@0[0]", "2:8 there is no rank -1"),
    ("output@0[2] = input@0[0]", "2:10 `output` of rank 0 has no chunk 2"),
    ("output@0[0] = input@0[0..2][1..2][1]", "2:35 this part of `input` of rank 0 has no chunk 1"),
    ("output@0[1..3] = input@0", "2:10 `output` of rank 0 has no chunk 2"),
    ("output@0[1..0] = input@0", "2:10 the part 1..0 ends before it starts"),
    ("output[0] = input@0[0]", "2:1 `output` is a buffer of every rank; say which rank's"),
    ("output@0[true] = input@0[0]", "2:10 expected an integer or a range, found a truth value"),
    ("output@0[0] = 1", "2:15 expected a region or a sum of regions, found an integer"),
    (
        "output@0[0] = input@0[0] + 1",
        "2:28 expected a region or a sum of regions, found an integer",
    ),
    (
        "output@0[0] = sum(i in 0..0: input@0[i])",
        "2:15 this sum has no terms, so there is nothing to store",
    ),
    ("output@0 = input@0[0]", "2:12 expected 2 chunks, found 1 chunk"),
    ("output@0[0] = input@0", "2:15 expected 1 chunk, found 2 chunks"),
    ("input@0[0] += input@0[0]", "2:15 input@0[0] is counted twice"),
    ("output@0[0] = output@0[0]", "2:15 nothing has been stored in output@0[0] yet"),
    ("output@0[0] += input@0[0]", "2:1 nothing has been stored in output@0[0] yet"),
    (
        "scratch t[3]  t@0[1] = input@0[0]  output@0 = t@0[1..3]",
        "2:47 nothing has been stored in t@0[2] yet",
    ),
    (
        "scratch t[3]  t@0[0..2] = input@0  t@0[1..3] = t@0[0..2]",
        "2:48 t@0[0..2] and t@0[1..3] overlap in part",
    ),
    ("scratch t[0 - 1]", "2:11 a buffer has 0 to 268435456 chunks, not -1"),
    ("let x = 1 / 0", "2:9 this divides by zero"),
    ("let x = 1 << 64", "2:9 a shift is by 0 to 63 bits"),
    ("let x = 9223372036854775807 + 1", "2:9 the result does not fit in 64 bits"),
    ("let x = 2 ** (0 - 1)", "2:9 the exponent is negative"),
    ("let x = [1, 2][2]", "2:16 the list has no element 2"),
    ("let x = (0..3)[0 - 1]", "2:16 the list has no element -1"),
    ("let x = [1, 2][1..4]", "2:16 the list has no element 3"),
    ("let x = 0..4 by 0", "2:17 a range goes up by steps of 1 or more, not 0"),
    ("for i in 4..0 by -1 {}", "2:18 a range goes up by steps of 1 or more, not -1"),
    (
        "output@0[0..2 by 2] = input@0",
        "2:10 a region is a run of chunks; it has no steps and does not run backwards",
    ),
    ("let x = [1, 2][0..2 by 2]", "2:16 expected an integer or a range, found a range with steps"),
    (
        "let x = (0..4)[reverse(0..2)]",
        "2:16 expected an integer or a range, found a range with steps",
    ),
    ("let x = 1 + true", "2:13 expected an integer, found a truth value"),
    ("let x = 1 == [1]", "2:9 an integer cannot be equal to a list"),
    (
        "let x = not 1",
        "2:13 expected a truth value (a comparison, `true` or `false`), found an integer",
    ),
    ("let x = log2(0)", "2:14 there is no logarithm of 0"),
    ("let x = position([1], 2)", "2:23 the list does not contain this value"),
    ("let x = bit_reverse(8, 3)", "2:21 8 does not fit in 3 bits"),
    ("let x = rank_at(1, 0)", "2:17 there is no node 1"),
    ("let x = len(1)", "2:13 expected a list, found an integer"),
    ("for i in 3 {}", "2:10 expected a range or a list, found an integer"),
    (
        "for [i, j] in [[1, 2, 3]] {}",
        "2:15 expected lists of 2 elements, to name each, found [1, 2, 3]",
    ),
    ("if 1 {}", "2:4 expected a truth value (a comparison, `true` or `false`), found an integer"),
    ("on channel 0 - 1 {}", "2:12 channels and thread blocks are 0 to 65535, not -1"),
    ("require N == 3, \"three\"", "2:9 a requirement does not hold: three"),
    ("let x = outptu", "2:9 nothing here is called `outptu`"),
    ("let x = lenn([])", "2:9 there is no function `lenn`"),
    ("let x = min(1)", "2:9 `min` takes 2 arguments, not 1"),
    ("for i in range(8) {}", "2:10 there is no function `range`"),
    ("ring_allreduce([0], input, [0])", "2:1 there is no function `ring_allreduce`"),
];

#[test]
fn statements() {
    for (statement, error) in STATEMENTS {
        check_errors(&two_ranks(statement), error);
    }
}

/// Whole files, and the errors each must have.
const FILES: &[(&str, &str)] = &[
    ("", "1:1 this file defines no algorithm"),
    (
        "algorithm a(C = 2) implements allreduce() {}",
        "1:11 algorithm `a` does not say which parameter counts its ranks",
    ),
    ("algorithm a(ranks N) implements allreduce() {}", "1:13 the parameter `N` has no value"),
    (
        "algorithm a(ranks N = 0) implements allreduce() {}",
        "1:13 expected 1 to 65536 ranks, found 0",
    ),
    (
        "algorithm a(ranks N = true) implements allreduce() {}",
        "1:13 expected a number of ranks, found a truth value",
    ),
    (
        "algorithm a(ranks N = 2, per_node G = 2, per_node H = 2) implements allreduce() {}",
        "1:42 `H` is a second number of ranks of a node",
    ),
    (
        "collective c(per_node G) {}\nalgorithm a(ranks N = 2) implements allreduce() {}",
        "1:14 only an algorithm's parameter can say how many ranks a node has",
    ),
    (
        "algorithm a(ranks N = 2, N = 2) implements allreduce() {}",
        "1:26 there are two parameters called `N`",
    ),
    (
        "algorithm a(X = nodes(), ranks N = 2) implements allreduce() {}",
        "1:17 the number of ranks is not known yet here",
    ),
    (
        "algorithm a(ranks N = 6, per_node G = 4) implements allreduce() {}",
        "1:26 6 ranks do not fill nodes of 4",
    ),
    ("algorithm a(ranks N = 2) implements alreduce() {}", "1:37 there is no collective `alreduce`"),
    (
        "algorithm a(ranks N = 2) implements allreduce(root 0) {}",
        "1:47 `allreduce` has no argument `root`",
    ),
    ("algorithm a(ranks N = 2) implements reduce(root 2) {}", "1:49 there is no rank 2"),
    (
        "algorithm a(ranks N = 2) implements allreduce(chunks 0) {}",
        "1:54 expected 1 to 268435456 chunks, found 0",
    ),
    (
        "algorithm a(ranks N = 65536) implements alltoall(chunks 2) {}",
        "1:41 the buffers of all ranks have more than 268435456 chunks",
    ),
    (
        "algorithm a(ranks N = 2) implements allreduce() protocol LL129 {}",
        "1:49 unknown protocol `LL129`; expected one of Simple, LL, LL128",
    ),
    (
        "algorithm a(ranks N = 2) implements allreduce() bytes 4..4 {}",
        "1:49 this range of sizes holds no size",
    ),
    (
        "algorithm a(ranks N = 2) implements allreduce() instances 0 {}",
        "1:59 expected 1 to 1024 instances, found 0",
    ),
    (
        "algorithm a(ranks N = 2) implements allreduce() in place in place {}",
        "1:58 this clause is given twice",
    ),
    (
        "algorithm a(ranks N = 2) implements reduce() { output@1[0] = input@1[0] }",
        "1:57 `output` of rank 1 has no chunks",
    ),
    (
        "fn f() = 1\nfn f() = 2\nalgorithm a(ranks N = 2) implements allreduce() {}",
        "2:4 the function `f` is defined twice",
    ),
    (
        "fn len(x) = 1\nalgorithm a(ranks N = 2) implements allreduce() {}",
        "1:4 the name `len` is built in",
    ),
    (
        "fn f() {}\nalgorithm a(ranks N = 2) implements allreduce() { let x = f() }",
        "2:59 `f` moves data and has no value",
    ),
    (
        "fn f() = 1\nalgorithm a(ranks N = 2) implements allreduce() { f() }",
        "2:51 `f` is a value, which moves nothing",
    ),
    (
        "fn f(a, b = 1) {}\nalgorithm a(ranks N = 2) implements allreduce() { f() }",
        "2:51 `f` takes 1 to 2 arguments, not 0",
    ),
    (
        "algorithm a(ranks N = 2) implements allreduce() {}\nalgorithm a(ranks N = 2) implements \
         allreduce() {}",
        "2:11 the algorithm `a` is defined twice",
    ),
    (
        "collective reduce() {}\nalgorithm a(ranks N = 2) implements allreduce() {}",
        "1:12 the name `reduce` is a standard collective",
    ),
    (
        "collective c() { given input@0 }\nalgorithm a(ranks N = 2) implements c() {}",
        "1:24 say which chunks: a collective's conditions decide its size",
    ),
    (
        "collective c() { given output@0[0] }\nalgorithm a(ranks N = 2) implements c() {}",
        "1:24 only chunks of `input` are given",
    ),
    (
        "collective c() { promise output@0[0] = input@0[0] }\nalgorithm a(ranks N = 2) implements \
         c() {}",
        "1:40 input@0[0] is promised but never given",
    ),
    (
        "collective c() { given input@0[0..2]\npromise output@0[0..2] = input@0[0..2]\npromise \
         output@0[1] = input@0[0] }\nalgorithm a(ranks N = 2) implements c() {}",
        "3:9 output@0[1] is promised twice",
    ),
    (
        "collective c() { given input@0[0] }\nalgorithm a(ranks N = 2) implements c() {}",
        "2:37 `c` promises nothing",
    ),
    (
        "collective c(k) { given input@0[0] }\nalgorithm a(ranks N = 2) implements c() {}",
        "2:37 `k` is not given",
    ),
    (
        "collective c(k) { given input@0[0] }\nalgorithm a(ranks N = 2) implements c(j 1) {}",
        "2:39 `c` has no parameter `j`",
    ),
    (
        "collective c(ranks M) { given input@0[0] }\nalgorithm a(ranks N = 2) implements c(M 3) {}",
        "2:39 `M` is always the algorithm's rank count",
    ),
];

#[test]
fn files() {
    for (file, error) in FILES {
        check_errors(file, error);
    }
}

#[test]
fn several_errors_at_once_each_place_once() {
    check_errors(
        &two_ranks(
            "for i in 0..4 { output@0[i] = input@0[i] }
             let x = 1 / 0
             output@0[x] = input@0[0]
             output@9[0] = input@0[0]",
        ),
        "2:26 `output` of rank 0 has no chunk 2
         3:22 this divides by zero
         5:21 there is no rank 9",
    );
}

#[test]
fn an_unwritten_read_is_reported_once_and_does_not_hide_the_next() {
    check_errors(
        &two_ranks(
            "output@0[0] += input@0[0]
             output@1[0] = output@0[0]
             output@1[1] += input@0[0]",
        ),
        "2:1 nothing has been stored in output@0[0] yet
         4:14 nothing has been stored in output@1[1] yet",
    );
}

#[test]
fn errors_in_functions_say_who_called() {
    let text = "fn f(r) { output@r[0] = input@r[0] }\n".to_owned() + &two_ranks("f(7)");
    let (sources, result) = super::evaluate_text(&text, &Launch::default());
    let errors = result.map(|dag| ops_of(&dag)).expect_err("rank 7 of 2");
    assert_eq!(super::show(&sources, &errors), ["1:18 there is no rank 7"]);
    let caller = &errors[0].labels[1];
    assert_eq!(sources.line_column(caller.span).line, 3);
    assert_eq!(caller.text, "called from here");
}

/// Statements with a slip, what is wrong, and what the first hint is.
const SLIPS: &[(&str, &str, &str)] = &[
    ("outpt@0[0] = input@0[0]", "2:1 nothing here is called `outpt`", "did you mean `output`?"),
    ("output@0[0] = inptu@0[0]", "2:15 nothing here is called `inptu`", "did you mean `input`?"),
    ("min(1, 2)", "2:1 `min` is a value, which moves nothing", "a statement moves data"),
    ("let x = len(1, 2)", "2:9 `len` takes 1 argument, not 2", "it is `len(list)`"),
];

#[test]
fn slips_get_a_hint() {
    let check = |text: &str, error: &str, hint: &str| {
        let (sources, result) = super::evaluate_text(text, &Launch::default());
        let errors = result.map(|dag| ops_of(&dag)).expect_err(text);
        assert_eq!(super::show(&sources, &errors), [error], "{text}");
        assert_eq!(errors[0].hints[0], hint, "{text}");
    };
    for (statement, error, hint) in SLIPS {
        check(&two_ranks(statement), error, hint);
    }
    let text = "algorithm a(ranks N = 2) implements allredcue() {}";
    check(text, "1:37 there is no collective `allredcue`", "did you mean `allreduce`?");
    let text = "import rings\nalgorithm a(ranks N = 2) implements allreduce() {}";
    check(text, "1:1 the standard library has no module `rings`", "did you mean `ring`?");
}

fn ops_of(dag: &msccl_compiler::chunk::ChunkDag) -> Vec<String> {
    super::ops(dag)
}

#[test]
fn launches_that_do_not_fit() {
    let text = "algorithm a(ranks N = 2, C = 1) implements allreduce() {}";
    let param = |name: &str, value| vec![(name.to_owned(), value)];
    let launches = [
        (Launch { params: param("D", 1), ..Launch::default() }, "1:11 `a` has no parameter `D`"),
        (
            Launch { ranks: Some(4), params: param("N", 3), ..Launch::default() },
            "1:13 `N` cannot be 4 and 3 at once",
        ),
        (Launch { ranks: Some(0), ..Launch::default() }, "1:13 expected 1 to 65536 ranks, found 0"),
        (
            Launch { ranks: Some(4), per_node: Some(3), ..Launch::default() },
            "1:11 4 ranks do not fill nodes of 3",
        ),
        (Launch { per_node: Some(0), ..Launch::default() }, "1:11 2 ranks do not fill nodes of 0"),
        (
            Launch { placement: Some(Placement::Both), ..Launch::default() },
            "1:11 a program is compiled for calls in place or out of place, not for both",
        ),
        (
            Launch { instances: Some(0), ..Launch::default() },
            "1:11 expected 1 to 1024 instances, found 0",
        ),
        (
            Launch { algorithm: Some("b".to_owned()), ..Launch::default() },
            "1:11 there is no algorithm `b` here",
        ),
    ];
    for (launch, error) in launches {
        check_errors_for(text, &launch, error);
    }
}
