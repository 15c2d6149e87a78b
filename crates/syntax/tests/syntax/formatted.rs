//! The canonical layout.

use msccl_syntax::format;

use crate::tree::parsed;

#[track_caller]
fn check(text: &str, expected: &str) {
    let formatted = format(text).unwrap_or_else(|found| panic!("{text}: {found:#?}"));
    assert_eq!(formatted, expected);
    assert_eq!(format(&formatted).as_deref(), Ok(expected), "formatting is not stable");
    assert_eq!(parsed(text), parsed(&formatted));
}

/// What is in this layout already.
#[track_caller]
fn check_kept(text: &str) {
    check(text, text);
}

#[track_caller]
fn check_expr(text: &str, expected: &str) {
    check(&format!("fn f() = {text}"), &format!("fn f() = {expected}\n"));
}

#[test]
fn spaces() {
    check_expr("a+b*c/d", "a + b*c/d");
    check_expr("a*b%c", "a * b % c");
    check_expr("a*b/c+a%2", "a*b/c + a % 2");
    check_expr("0..N%2", "0 .. N % 2");
    check_expr("( a+1 )*b + ( c+d )", "(a + 1)*b + (c + d)");
    check_expr("2**( k+f( a+1 ) )", "2**(k + f(a + 1))");
    check_expr("( (c+step)%N )", "((c + step) % N)");
    check_expr("0 .. 2*N - 1", "0..2*N-1");
    check_expr("l[ i+1 .. (i + 2)*k ]", "l[i + 1 .. (i + 2)*k]");
    check_expr("l[i + 1..n]", "l[i+1..n]");
    check_expr("f(a)..min(a,b)", "f(a) .. min(a, b)");
    check_expr("l[i]..l[ i+1 ]", "l[i] .. l[i + 1]");
    check_expr("0..2 ** k-1", "0..2**k-1");
    check_expr("0 .. n-1  by  2 ** k", "0..n-1 by 2**k");
    check_expr("a..f(0 .. n by 2)", "a .. f(0..n by 2)");
    check_expr("a*b+c..a*b+c+1", "a*b + c .. a*b + c + 1");
    check_expr("a .. b == c .. d", "a..b == c..d");
    check_expr("- a - - b", "-a - -b");
    check_expr("2 ** k + 1", "2**k + 1");
    check_expr("not  a and  not not b", "not a and not not b");
    check_expr("input @ ( r + 1 ) [ 0 ]", "input@(r + 1)[0]");
    check_expr("f ( a , b )[0]", "f(a, b)[0]");
    check_expr("[ i  in l if a : i ]", "[i in l if a: i]");
    check_expr("sum ( [a,b] in l , c in m : a )", "sum([a, b] in l, c in m: a)");
    check_expr("if a then b else if c then d else e", "if a then b else if c then d else e");
    check_expr("[ ] + [1,2]", "[] + [1, 2]");
}

#[test]
fn statements() {
    check(
        "fn f ( a,b ) { let x=1 scratch tmp [ 4 ] require a,\"b\" x+=y on channel 1,send tb 2
         g(x)on tb 3 on receive tb 1{x=y} }",
        r#"fn f(a, b) {
    let x = 1
    scratch tmp[4]
    require a, "b"
    x += y on channel 1, send tb 2
    g(x) on tb 3
    on receive tb 1 { x = y }
}
"#,
    );
}

/// A block of one simple statement stays on the line of its head; any other is spread out.
#[test]
fn short_blocks() {
    check_kept(
        "fn f() {\n    for i in l { x = y }\n    if a { g() }\n    on tb 1 { let x = 1 }\n}\n",
    );
    check_kept("fn f() {\n    for i in l {\n        x = y\n    }\n}\n");
    check(
        "fn f() { if a { x = y } else { } }",
        "fn f() {\n    if a {\n        x = y\n    } else {}\n}\n",
    );
    check("fn f() { x = y z = u }", "fn f() {\n    x = y\n    z = u\n}\n");
    check("fn f() { g() // c\n }", "fn f() {\n    g() // c\n}\n");
    let long = "x".repeat(60);
    check(
        &format!("fn f() {{ if {long} {{ y = {long} }} }}"),
        &format!("fn f() {{\n    if {long} {{\n        y = {long}\n    }}\n}}\n"),
    );
}

#[test]
fn empty_lines() {
    check(
        "\n\nimport a\n\n\n\nimport b\nfn f() = 1\nfn g() {\n\n\n x = y\n\n\n\n z = u\n\n}\nfn h() \
         = 2\n\n",
        "import a\n\nimport b\nfn f() = 1\n\nfn g() {\n    x = y\n\n    z = u\n}\n\nfn h() = 2\n",
    );
    check("", "");
    check("\n\n", "");
    check("// only\n\n\n// comments", "// only\n\n// comments\n");
}

/// A comment that an empty line parts from what follows is not about it.
#[test]
fn first_comments_stay_apart() {
    for item in ["import a", "fn f() = 1", "algorithm a(ranks N) implements x() {}"] {
        check_kept(&format!("// of the file\n\n{item}\n"));
        check_kept(&format!("// of what follows\n{item}\n"));
    }
}

#[test]
fn comments() {
    check_kept(
        "// of the file

// of the import
import a // behind it

// of f
fn f() { // behind the brace
    // first
    x = y // behind a statement
    // between

    // apart
    z = u
    // last
}
// behind f

// at the end
",
    );
    check(
        "fn f() { if a { } // one\n else { // two\n } }",
        "fn f() {\n    if a {} // one\n    else { // two\n    }\n}\n",
    );
    check(
        "fn f() = [ // one\n1, // two\n2 // three\n]",
        "fn f() = [ // one\n    1, // two\n    2 // three\n]\n",
    );
    check("fn f() =\n// why\n1", "fn f() =\n    // why\n    1\n");
    check(
        "fn f() { let x = a + // why\n b }",
        "fn f() {\n    let x = a\n        + // why\n        b\n}\n",
    );
    check("fn f(// none\n) = 1", "fn f( // none\n) = 1\n");
    check("fn f() = 1 //  kept \t as it is  \r\n", "fn f() = 1 //  kept \t as it is\n");
}

#[test]
fn long_lines() {
    check_kept(
        "algorithm hierarchical(ranks N = 16, per_node G = 8, C = 1)
        implements allreduce(chunks N, root 0) in place protocol LL instances 2 threads 512
        bytes 0..64KiB order flat {
    for some_rather_long_name in 0..another_rather_long_name-1, c in 0..yet_another_name
            if some_rather_long_name != c
            on channel c % C {
        input@((some_rather_long_name + another_rather_long_name) % N)[some_rather_long_name] +=
            input@((some_rather_long_name + another_rather_long_name + 1) % N)[c]
            on channel c, tb 1
    }
    let a_sum = some_rather_long_name*another_rather_long_name
        + yet_another_name
        - another_rather_long_name
        + some_rather_long_name
    let a_list = [
        1000000, 2000000, 3000000, 4000000, 5000000, 6000000, 7000000, 8000000, 9000000, 1000000,
        2000000, 3000000
    ]
    let a_call = some_function(
        some_rather_long_name,
        another_rather_long_name,
        [i in 0..yet_another_name: i * i],
        another_rather_long_name
    )
    let a_choice = if some_rather_long_name == another_rather_long_name
        then yet_another_name + some_rather_long_name
        else another_rather_long_name
}
",
    );
}

#[test]
fn refuses_what_does_not_parse() {
    for text in [
        "fn f() = 1;",
        "fn f() = ",
        "fn f() { given input@0 }",
        "}",
        "fn f() = 99999999999999999999",
    ] {
        assert!(format(text).is_err(), "{text}");
    }
}
