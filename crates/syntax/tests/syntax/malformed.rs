//! Malformed texts: what is said, where, and what to do.

use msccl_syntax::{Diagnostic, SourceMap};

use crate::tree::tree;

/// What is said about a text: `line:column message`, and its hints on lines of their own.
fn said(text: &str) -> Vec<String> {
    let mut sources = SourceMap::new();
    sources.add("test.msccl", text);
    let found = tree(text).expect_err(text);
    let lines = |diagnostic: &Diagnostic| {
        let place = sources.line_column(diagnostic.labels[0].span);
        let message = format!("{}:{} {}", place.line, place.column, diagnostic.message);
        let hints = diagnostic.hints.iter().map(|hint| format!("hint: {hint}"));
        std::iter::once(message).chain(hints).collect::<Vec<_>>()
    };
    found.iter().flat_map(lines).collect()
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let expected: Vec<_> =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(said(text), expected, "{text}");
}

/// Cases stand apart by an empty line; what is expected is indented.
#[track_caller]
fn check_table(table: &str, at_least: usize, wrap: impl Fn(&str) -> String) {
    let cases: Vec<_> = table.trim().split("\n\n").collect();
    assert!(cases.len() >= at_least, "{} cases", cases.len());
    for case in cases {
        let (text, expected) = case.split_once("\n    ").expect(case);
        check(&wrap(text), expected);
    }
}

#[test]
fn definitions() {
    check_table(DEFINITIONS, 30, str::to_string);
}

/// Each stands on line 2, alone in the block of a function.
#[test]
fn statements() {
    check_table(STATEMENTS, 75, |text| format!("fn f() {{\n{text}\n}}"));
}

#[test]
fn several_at_once() {
    check(
        "import 3
fn f(a b) = a
algorithm ring(ranks N = 8) implement allreduce(chunks N) {
    let x = 1;
    for i of 0..N {
        input@i[0] == input@0[0]
        if i > 0 && i < 3 { let let = 3 }
        input@i[0] = input@0[0]
    }
    let y = 99999999999999999999
    while x { foo }
}",
        "1:8 expected a name or a text in quotes, found `3`
         2:8 expected `,` or `)`, found `b`
         3:29 expected `implements` and a collective, found `implement`
         hint: write which: `implements allreduce(chunks N)`
         4:14 unexpected `;`
         hint: statements need no separator, and binders have `,` between them
         5:11 expected `in` after the loop variable, found `of`
         6:20 expected `=` or `+=`, found `==`
         hint: `=` gives a value, `==` compares
         7:18 unexpected `&&`
         hint: write `and`
         10:13 this integer is too large
         hint: integers have 64 bits; the largest is 9223372036854775807
         11:5 expected a statement, found `while`
         hint: loops run over ranges and lists: `for i in a..b { … }`",
    );
}

#[test]
fn one_slip_does_not_hide_the_next_statement() {
    check(
        "fn f() {
    let x = [1, 2
        3, 4]
    let y = min(a,
        b c)
    x = y
    let z = 4 4 +
        5
    for
    x = z
}",
        "2:18 expected `,` or `]`, found `3`
         5:11 expected `,` or `)`, found `c`
         7:15 expected an operator or the next statement, found `4`
         10:7 expected `in` after the loop variable, found `=`
         hint: write `for i in a..b`",
    );
}

/// The indentation shows which `}` is missing, not the end of the file.
#[test]
fn missing_braces() {
    check(
        "fn f() {
    for i in 0..4 {
        if i == 2 {
            g(i)
    }
}
fn h() = 1",
        "3:19 this `{` is never closed
         hint: close the block with `}`",
    );
    check(
        "fn f() {\n    g(\n  1)\n    g(\n1\n  )\n",
        "1:8 this `{` is never closed\nhint: add `}` where it ends",
    );
    check(
        "fn f() {\n    for i in 0..4 { g(i) }\n",
        "1:8 this `{` is never closed\nhint: add `}` where it ends",
    );
    check(
        "fn f() { g((1) }\nfn h() { g(1)) }",
        "1:16 expected `)`, found `}`\n2:14 `)` closes nothing",
    );
}

/// Hints that go by words do not fire where the words are names.
#[test]
fn foreign_words_are_good_names() {
    assert!(tree("fn f() { let loop = 1 use = loop from@1 = use int[0] = use }").is_ok());
}

#[test]
fn no_more_than_fifty() {
    assert_eq!(said(&"fn f() = 1 +\n".repeat(80)).len(), 50);
    assert_eq!(said(&"fn f() = 99999999999999999999\n".repeat(80)).len(), 2 * 50);
}

const STATEMENTS: &str = r##"
let x = 1;
    2:10 unexpected `;`
    hint: statements need no separator, and binders have `,` between them

for (r in 0..8) { }
    2:5 expected a name, found `(`
    hint: loops have no parentheses: `for i in a..b { … }`

output@0[1, 2] = input@0
    2:11 expected `]`, found `,`
    hint: several chunks are a run: `[a..b]`

let x == 1
    2:7 expected `=`, found `==`
    hint: `=` gives a value, `==` compares

input@1[0] == input@0[0]
    2:12 expected `=` or `+=`, found `==`
    hint: `=` gives a value, `==` compares

for i in range(8): { }
    2:18 expected `{`, found `:`
    hint: a block stands in braces: `{ … }`
    hint: `0..n` counts from 0 up to, and without, n; `a..b by s` in steps of s

for i of 0..8 { }
    2:7 expected `in` after the loop variable, found `of`

for i = 0..8 { }
    2:7 expected `in` after the loop variable, found `=`
    hint: write `for i in a..b`

for in 0..8 { }
    2:5 expected a name, found the keyword `in`
    hint: choose another name

for sum in 0..8 { }
    2:5 expected a name, found the keyword `sum`
    hint: choose another name

for i in 0..8 input@1[0] = input@0[0]
    2:15 expected `{`, found `input`

if a && b { }
    2:6 unexpected `&&`
    hint: write `and`

if !a { }
    2:4 unexpected `!`
    hint: write `not`

if a = b { }
    2:6 expected an operator, found `=`
    hint: `==` compares

if a { } else foo
    2:10 expected a statement, found the keyword `else`
    hint: `else` follows the `}` of an `if`; after it stands `{` or `if`

if a { } elif b { }
    2:10 expected a statement, found `elif`
    hint: write `else if`

else { }
    2:1 expected a statement, found the keyword `else`
    hint: `else` follows the `}` of an `if`; after it stands `{` or `if`

# comment
    2:1 unexpected `#`
    hint: comments run from `//` to the end of the line

/* c */ let x = 1
    2:1 unexpected `/*`
    hint: comments run from `//` to the end of the line

let x = 1.5
    2:9 expected an integer, found the decimal `1.5`
    hint: numbers are integers

let x = 0x1F
    2:9 expected an integer, found the literal `0x1F`
    hint: integers are written in decimal

let x = 64KB
    2:9 unknown suffix `KB`
    hint: the suffixes are `KiB`, `MiB` and `GiB`

let x = 99999999999999999999
    2:9 this integer is too large
    hint: integers have 64 bits; the largest is 9223372036854775807

let x = 9_000_000_000GiB
    2:9 this integer is too large
    hint: integers have 64 bits; the largest is 9223372036854775807

let let = 3
    2:5 expected a name, found the keyword `let`
    hint: choose another name

let x 3
    2:7 expected `=`, found `3`

let x = 
    2:8 expected an expression, found `}`

let x = (1 + 2
    3:1 expected `)`, found `}`

let x = 1 + 2)
    2:14 `)` closes nothing

let x = [1, 2,]
    2:15 expected an expression, found `]`
    hint: remove the `,` before it

let x = f(1, 2,)
    2:16 expected an expression, found `)`
    hint: remove the `,` before it

let x = f(1 2)
    2:13 expected `,` or `)`, found `2`

let x = [1 2]
    2:12 expected `,` or `]`, found `2`

let x = [i in 0..4]
    2:19 expected `:`, found `]`

let x = [i in 0..4 i]
    2:20 expected `:`, found `i`

let x = sum(0..4)
    2:13 expected a name, found `0`
    hint: write `sum(i in a..b: term)`

let x = sum(i in 0..4, i)
    2:25 expected `in` after the loop variable, found `)`

let x = if a then b
    2:20 expected `else`, found `}`
    hint: every `if … then …` has an `else`: it is a value

let x = if a b else c
    2:14 expected `then` after the condition, found `b`

let x = if a then if b then c else d else e
    2:19 expected an expression, found the keyword `if`
    hint: put the inner `if` in parentheses

let x = a < b < c
    2:15 comparisons do not chain
    hint: write `a < b and b < c`

let x = a..b..c
    2:13 ranges do not chain

let x = 0..=4
    2:10 unexpected `..=`
    hint: a range is written `a..b` and ends before b: `a..b+1` includes b

let x = a == not b
    2:14 expected an expression, found the keyword `not`
    hint: put `not …` in parentheses

input@1[0] => input@0[0]
    2:12 unexpected `=>`
    hint: write `=` to copy, `>=` to compare

input@1[0] -= input@0[0]
    2:12 unexpected `-=`
    hint: `=` copies and `+=` reduces; the operator is chosen when the algorithm runs

input@1[0] = input@0[0] input@2[0]
    2:25 expected an operator or the next statement, found `input`

input@f(1)[0] = input@0[0]
    2:8 expected an operator, found `(`
    hint: after `@` stands a name, an integer or an expression in parentheses

input@-1[0] = input@0[0]
    2:7 expected a name, an integer or `(`, found `-`
    hint: after `@` stands a name, an integer or an expression in parentheses

input@1[0] + input@2[0] = input@0[0]
    2:12 expected `=` or `+=`, found `+`
    hint: `=` copies, `+=` reduces

(input@1)[0] = input@0[0]
    2:1 expected a statement, found `(`
    hint: a statement moves data, as `input@1[0] = input@0[0]`, or starts with a keyword

input@1[0] = input@0[0] on chan 3
    2:28 expected `channel`, `tb`, `send tb` or `receive tb`, found `chan`
    hint: for example `on channel c, send tb 0`

input@1[0] = input@0[0] on send 3
    2:33 expected `tb`, found `3`

input@1[0] = input@0[0] on channel 3,
    2:38 expected `channel`, `tb`, `send tb` or `receive tb`, found `}`
    hint: for example `on channel c, send tb 0`

input@1[0] = input@0[0] on channel 3, 4
    2:39 expected `channel`, `tb`, `send tb` or `receive tb`, found `4`
    hint: for example `on channel c, send tb 0`

on channel 3
    2:13 expected `{`, found `}`

scratch tmp(4)
    2:12 expected `[`, found `(`

scratch [4]
    2:9 expected a name, found `[`

require a, b
    2:12 expected a text in quotes, found `b`

require "x
    2:9 expected `"` before the end of the line

require a, "b\q"
    2:12 unknown escape `\q`
    hint: the escapes are `\n`, `\t`, `\"` and `\\`

given input@0
    2:1 `given` stands only in a collective
    hint: `collective name(…) { … }` states what is given and what is promised

promise output@0[0] += input@0[0]
    2:21 expected `=`, found `+=`
    hint: write `=`

let x = 'a'
    2:9 unexpected `'`
    hint: texts stand in double quotes: "text"

let x = a ? b : c
    2:11 unexpected character `?`

let x = é
    2:9 unexpected character `é`
    hint: names are made of a-z, A-Z, 0-9 and `_`

let é = 3
    2:5 unexpected character `é`
    hint: names are made of a-z, A-Z, 0-9 and `_`

let x = a.b
    2:10 unexpected `.`
    hint: there are no members; functions are called as `name(arguments)`

return 3
    2:1 expected a statement, found `return`
    hint: a function states its value: `fn name(…) = value`

while a { }
    2:1 expected a statement, found `while`
    hint: loops run over ranges and lists: `for i in a..b { … }`

foo
    2:4 expected `=` or `+=`, found `}`
    hint: `=` copies, `+=` reduces

foo bar
    2:5 expected `=` or `+=`, found `bar`
    hint: `=` copies, `+=` reduces

foo(
    3:1 expected `)`, found `}`

{ let x = 1 }
    2:1 expected a statement, found `{`
    hint: a block follows `for …`, `if …`, `else` or `on …`

fn f() = 3
    2:1 expected a statement, found the keyword `fn`
    hint: definitions stand outside of blocks; is a `}` missing before it?

let x = a[..3]
    2:11 expected an expression, found `..`
    hint: a range names both ends: `a..b`

let x = a[1..]
    2:14 expected an expression, found `]`
    hint: a range names both ends: `a..b`

let x = -
    2:10 expected an expression, found `}`

let x = a ** 
    2:13 expected an expression, found `}`

let x = a or or b
    2:14 expected an expression, found the keyword `or`

import ring
    2:1 expected a statement, found the keyword `import`
    hint: definitions stand outside of blocks; is a `}` missing before it?

let x = a by 2
    2:11 `by` follows a range
    hint: write `a..b by s`

let x = (0..8) by 2
    2:16 `by` follows a range
    hint: write `a..b by s`

let x = 0..8 by 2 by 3
    2:19 steps do not chain

let x = 0..8 by
    2:16 expected an expression, found `}`

let c = chunk(0, 1).copy(1, 2)
    2:20 unexpected `.copy`
    hint: write the destination first: `destination = source`

let x = a
input@0.reduce(input@1)
    3:8 unexpected `.reduce`
    hint: write the destination first: `destination += source`

let x = input@
    2:15 expected a name, an integer or `(`, found `}`
    hint: after `@` stands a name, an integer or an expression in parentheses

let x = a xor b
    2:11 expected an operator or the next statement, found `xor`

for i in 0..4 on { }
    2:18 expected `channel`, `tb`, `send tb` or `receive tb`, found `{`
    hint: for example `on channel c, send tb 0`

for i in 0..4 if { }
    2:18 expected an expression, found `{`

for [a, 3] in l { }
    2:9 expected a name, found `3`

for i, j in l { }
    2:6 expected `in` after the loop variable, found `,`
    hint: write `for i in a, j in b`, or `for [i, j] in pairs`
"##;

const DEFINITIONS: &str = r##"
algorithm ring(ranks N = 8) { }
    1:29 expected `implements` and a collective, found `{`
    hint: write which: `implements allreduce(chunks N)`

algorithm ring(ranks N = 8) implements { }
    1:40 expected a name, found `{`

algorithm ring(ranks N = 8) implements allreduce { }
    1:50 expected `(`, found `{`
    hint: parentheses follow the collective, even if empty: `allreduce()`

algorithm ring(ranks N = 8) implements allreduce(N) { }
    1:51 expected an expression, found `)`
    hint: arguments are labelled: `allreduce(chunks N)`, `broadcast(root 0)`

algorithm ring(ranks N = 8) implements allreduce(chunks = N) { }
    1:57 expected an expression, found `=`
    hint: arguments are labelled: `allreduce(chunks N)`, `broadcast(root 0)`

algorithm ring(ranks N = 8) implements allreduce(chunks N) speed 3 { }
    1:60 expected a clause or `{`, found `speed`
    hint: the clauses are `in place`, `protocol NAME`, `instances k`, `interleaved k`, `bytes a..b` and `threads t`

algorithm ring(ranks N = 8) implements allreduce(chunks N) in { }
    1:63 expected `place`, found `{`

algorithm ring(ranks N = 8) implements allreduce(chunks N) bytes 3 { }
    1:68 expected `..`, found `{`
    hint: message sizes are given as `bytes a..b` or `bytes a..`

algorithm ring(ranks N = 8) implements allreduce(chunks N) protocol { }
    1:69 expected a name, found `{`

algorithm ring(ranks N = 8) implements allreduce(chunks N) protocol 3 { }
    1:69 expected a name, found `3`

algorithm ring(ranks N = 8) implements allreduce(chunks N) = 3
    1:60 expected a clause or `{`, found `=`
    hint: the clauses are `in place`, `protocol NAME`, `instances k`, `interleaved k`, `bytes a..b` and `threads t`

algorithm ring(N = 8) implements allreduce(chunks N) { }
    1:11 algorithm `ring` does not say which parameter counts its ranks
    hint: write `algorithm ring(ranks N = 8, …)`

algorithm ring(ranks N, ranks M) implements allreduce(chunks N) { }
    1:25 `M` is a second number of ranks
    hint: only one parameter is introduced by `ranks`

algorithm ring(ranks N = ) implements allreduce(chunks N) { }
    1:26 expected an expression, found `)`

algorithm ring(ranks N 8) implements allreduce(chunks N) { }
    1:24 expected `,` or `)`, found `8`

algorithm ring implements allreduce(chunks N) { }
    1:16 expected `(`, found the keyword `implements`

algorithm (ranks N) implements allreduce(chunks N) { }
    1:11 expected a name, found `(`

algorithm ring(ranks N) implements allreduce(chunks N) { for i in 0..3 { }
    1:56 this `{` is never closed
    hint: add `}` where it ends

algorithm ring(ranks N) implements allreduce(chunks N) { } }
    1:60 `}` closes nothing

algoritm ring(ranks N) implements allreduce(chunks N) { }
    1:1 expected a definition, found `algoritm`
    hint: did you mean `algorithm`?

fn f(ranks N) = 3
    1:6 a function's parameters are plain values
    hint: write `N` alone

fn f(x) x + 1
    1:9 expected `=` or `{`, found `x`

fn f(x) = { x }
    1:11 expected an expression, found `{`
    hint: a function with a block has no `=`: `fn name(…) { … }`

fn f(x): x + 1
    1:8 expected `=` or `{`, found `:`
    hint: a block stands in braces: `{ … }`

fn f x = 1
    1:6 expected `(`, found `x`

def f(x) = 3
    1:1 expected a definition, found `def`
    hint: write `fn name(…) = value` or `fn name(…) { … }`

let x = 3
    1:1 expected a definition, found the keyword `let`
    hint: statements stand in the block of an algorithm or a function

import 3
    1:8 expected a name or a text in quotes, found `3`

import ring, tree
    1:12 expected a definition, found `,`
    hint: each `import` names one module

fn f() = 1 import ring
    1:12 expected a definition, found an import
    hint: imports stand at the top of the file

collective c(ranks N) { input@0[0] = input@1[0] }
    1:25 a collective moves no data
    hint: it states what is `given` and what it will `promise`

collective c(ranks N) implements x(chunks N) { }
    1:23 expected `{`, found the keyword `implements`

algorithm ring(ranks N) implements allreduce(chunks N)
    1:55 expected a clause or `{`, found the end of the file
    hint: the clauses are `in place`, `protocol NAME`, `instances k`, `interleaved k`, `bytes a..b` and `threads t`

algorithm ring(rank N = 8) implements allreduce(chunks N) { }
    1:21 expected `,` or `)`, found `N`
    hint: `ranks N` counts the ranks, `per_node G` those of a node; other parameters are names

algorithm
    1:10 expected a name, found the end of the file

hello world
    1:1 expected a definition, found `hello`
    hint: a file is made of `import`, `fn`, `collective` and `algorithm`

}
    1:1 `}` closes nothing

algorithm ring(ranks N) implements allreduce(chunks N,) { }
    1:55 expected a name, found `)`
    hint: remove the `,` before it

fn f(a b) = a
    1:8 expected `,` or `)`, found `b`

fn f(a, a, ) = a
    1:12 expected a name, found `)`
    hint: remove the `,` before it

fn input(a) = a
    1:4 expected a name, found `input`
    hint: choose another name

import "a
    1:8 expected `"` before the end of the line

/* never closed
    1:1 unexpected `/*`
    hint: comments run from `//` to the end of the line

fn f() = ((1 + 2]
    1:10 this `(` is never closed
    hint: add `)` where it ends
    1:17 expected `)`, found `]`

fn f() = 1 ++ 2
    1:12 unexpected `++`
    hint: names keep their values; lists are joined by `+`

fn f(a) = a.b.c; fn g() = 1
    1:12 unexpected `.`
    hint: there are no members; functions are called as `name(arguments)`
    1:14 unexpected `.`
    hint: there are no members; functions are called as `name(arguments)`
    1:16 unexpected `;`
    hint: statements need no separator, and binders have `,` between them
"##;
