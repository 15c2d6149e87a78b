//! Texts and their trees.

use msccl_syntax::ast::{FunctionBody, Item};
use msccl_syntax::{SourceMap, parse};

use crate::tree::parsed;

#[track_caller]
fn check(text: &str, expected: &str) {
    let expected: Vec<_> = expected.lines().map(str::trim_end).collect();
    assert_eq!(parsed(text).lines().collect::<Vec<_>>(), expected, "{text}");
}

#[track_caller]
fn check_expr(text: &str, expected: &str) {
    check(&format!("fn f() = {text}"), &format!("fn f () = {expected}"));
}

#[track_caller]
fn check_statement(text: &str, expected: &str) {
    let indented: String = expected.lines().map(|line| format!("  {line}\n")).collect();
    check(&format!("fn f() {{ {text} }}"), &format!("fn f ()\n{indented}"));
}

#[test]
fn operators_group_by_precedence() {
    check_expr("1 + 2 * 3", "(+ 1 (* 2 3))");
    check_expr("1 - 2 - 3", "(- (- 1 2) 3)");
    check_expr("2 ** 3 ** 2", "(** 2 (** 3 2))");
    check_expr("-2 ** 2", "(neg (** 2 2))");
    check_expr("2 ** -1", "(** 2 (neg 1))");
    check_expr("-a * b", "(* (neg a) b)");
    check_expr("--1", "(neg (neg 1))");
    check_expr("a | b ^ c & d << e + f", "(| a (^ b (& c (<< d (+ e f)))))");
    check_expr("a % b / c", "(/ (% a b) c)");
    check_expr("0..N-1", "(.. 0 (- N 1))");
    check_expr("a | 1..b", "(.. (| a 1) b)");
    check_expr("0..N-1 by 2**k", "(.. 0 (- N 1) (** 2 k))");
    check_expr("a..b by c == d..e and f", "(and (== (.. a b c) (.. d e)) f)");
    check_expr("a..b == c..d", "(== (.. a b) (.. c d))");
    check_expr("not a == b and c or d", "(or (and (not (== a b)) c) d)");
    check_expr("a and not not b", "(and a (not (not b)))");
    check_expr("a < b and b <= c", "(and (< a b) (<= b c))");
    check_expr("(a < b) == (c >= d)", "(== (< a b) (>= c d))");
    check_expr("(1 + 2) * 3", "(* (+ 1 2) 3)");
}

#[test]
fn conditionals_are_the_weakest() {
    check_expr("if a or b then c + 1 else d + 1", "(if (or a b) (+ c 1) (+ d 1))");
    check_expr("if a then b else if c then d else e", "(if a b (if c d e))");
    check_expr("1 + (if a then b else c)", "(+ 1 (if a b c))");
}

#[test]
fn literals() {
    check_expr("1_000", "1000");
    check_expr("64KiB", "65536");
    check_expr("2MiB + 1GiB", "(+ 2097152 1073741824)");
    check_expr("9223372036854775807", "9223372036854775807");
    check_expr("true == false", "(== true false)");
    check_expr(r#""a\"b\\c\n""#, r#""a\"b\\c\n""#);
}

#[test]
fn lists_sums_and_calls() {
    check_expr("[]", "[]");
    check_expr("[1, [2], a + b]", "[1 [2] (+ a b)]");
    check_expr("[i in 0..4 if i != 2: i * i]", "[i in (.. 0 4) if (!= i 2): (* i i)]");
    check_expr("[[a, b] in l, c in a..b: c]", "[[a b] in l, c in (.. a b): c]");
    check_expr("[[a, b], c]", "[[a b] c]");
    check_expr("sum(q in 0..N: input@q[r])", "sum(q in (.. 0 N): (index (@ input q) r))");
    check_expr("f()", "f()");
    check_expr("min(a, b)[0]", "(index min(a b) 0)");
}

#[test]
fn places() {
    check_expr("input@(r + 1)[a..b][0]", "(index (index (@ input (+ r 1)) (.. a b)) 0)");
    check_expr("tmp@3", "(@ tmp 3)");
    check_expr("-l[0]", "(neg (index l 0))");
    check_expr("a[0] ** b[1]", "(** (index a 0) (index b 1))");
}

#[test]
fn statements() {
    check_statement("let x = 1", "let x 1");
    check_statement("input@1[0] = output@0", "= (index (@ input 1) 0) (@ output 0)");
    check_statement("x += a + b on channel 1, tb 2", "+= x (+ a b) on channel 1 on tb 2");
    check_statement("f(x) on send tb 1, receive tb 2", "call f(x) on send tb 1 on receive tb 2");
    check_statement("scratch tmp[2 * N]", "scratch tmp (* 2 N)");
    check_statement("require a, \"why\"", "require a \"why\"");
    check_statement("require a", "require a");
    check_statement("on tb 0 { f() }", "place on tb 0\n  call f()");
    check_statement("for i in a if c on tb i { }", "for i in a if c on tb i");
    check_statement("if a { f() }", "if a\n  call f()");
    check_statement(
        "if a { f() } else if b { g() } else { h() }",
        "if a\n  call f()\nelse\n  if b\n    call g()\n  else\n    call h()",
    );
}

/// There are no separators: what follows decides where a statement ends.
#[test]
fn statements_end_where_the_next_begins() {
    check_statement("let x = a let y = b", "let x a\nlet y b");
    check_statement("x = y f(x) z = 1", "= x y\ncall f(x)\n= z 1");
    check_statement("f(x)[0] = y", "= (index f(x) 0) y");
    check_statement("x = a\n + b", "= x (+ a b)");
    check_statement("let x = a if b { }", "let x a\nif b");
    check_statement("x = a on tb 1 { f() }", "= x a\nplace on tb 1\n  call f()");
    check_statement("f() on tb 1 { g() }", "call f()\nplace on tb 1\n  call g()");
}

#[test]
fn contextual_words_are_names() {
    check_statement("let channel = tb + send", "let channel (+ tb send)");
    check_statement("root = chunks on channel channel", "= root chunks on channel channel");
    check("fn f(ranks, per_node) = ranks", "fn f (ranks, per_node) = ranks");
    check(
        "algorithm bytes(ranks ranks) implements x(root root) threads threads { }",
        "algorithm bytes (ranks ranks) x(root root) threads threads",
    );
    check_expr("input_ + inputs + iff", "(+ (+ input_ inputs) iff)");
}

#[test]
fn definitions() {
    check("import ring\nimport \"a.msccl\"", "import ring\nimport \"a.msccl\"");
    check(
        "collective shift(ranks N, chunks = 1) { given input@0 promise output@1[0] = input@0[0] }",
        "collective shift (ranks N, chunks = 1)\n  given (@ input 0)\n  \
         promise (index (@ output 1) 0) (index (@ input 0) 0)",
    );
    check(
        "algorithm a(ranks N = 8, per_node G = 4, C = 2 * N) implements broadcast(root 0, chunks N)
         in place protocol LL instances 2 interleaved 3 bytes 0..64KiB threads 512
         order flat { }",
        "algorithm a (ranks N = 8, per_node G = 4, C = (* 2 N)) broadcast(root 0, chunks N) \
         in place protocol LL instances 2 interleaved 3 bytes 0 .. 65536 threads 512 \
         order flat",
    );
    check(
        "algorithm a(ranks N) implements x() bytes 2 * K.. threads 512 { }",
        "algorithm a (ranks N) x() bytes (* 2 K) .. threads 512",
    );
    check(
        "algorithm order(ranks N, order = 1) implements x() bytes order.. order tree { }",
        "algorithm order (ranks N, order = 1) x() bytes order .. order tree",
    );
}

#[test]
fn blanks_comments_and_byte_order_marks_mean_nothing() {
    let plain = parsed("fn f(a) = a + 1");
    for text in [
        "fn f(a) = a + 1\n",
        "\u{feff}fn f(a) = a + 1",
        "fn\tf(\r\n a)\r\n=a+1",
        "// one\nfn // \"two\n f(a) = // { three\n a + 1 // four",
    ] {
        assert_eq!(parsed(text), plain, "{text:?}");
    }
}

/// Spans cover tokens only: no blanks, no comments, brackets included.
#[test]
fn spans() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let mut sources = SourceMap::new();
        let file = sources.add("test.msccl", text);
        let tree = parse(&sources, file).unwrap();
        let Some(Item::Function(function)) = tree.items.first() else { panic!("{tree:?}") };
        let span = match &function.body {
            FunctionBody::Value(value) => value.span,
            FunctionBody::Block(block) => block.statements[0].span,
        };
        assert_eq!(&text[span.start as usize..span.end as usize], expected);
    }
    check("fn f() = a + b  // c\n\n", "a + b");
    check("fn f() = (a + b) * c // d", "(a + b) * c");
    check("fn f() = a[ 1 ] // d", "a[ 1 ]");
    check("fn f() = if a then b else (c) // d", "if a then b else (c)");
    check("fn f() { x = y // z\n }", "x = y");
    check("fn f() { f(x) // z\n on tb 1 // u\n }", "f(x) // z\n on tb 1");
}
