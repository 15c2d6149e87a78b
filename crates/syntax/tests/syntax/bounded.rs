//! Hostile texts: each is refused or parsed, fast, on a small stack.

use std::time::{Duration, Instant};

use msccl_syntax::format;
use msccl_syntax::limits::{MAX_DEPTH, MAX_FILE_BYTES, MAX_NESTING};

use crate::tree::tree;

/// Debug builds on a loaded machine are slow; anything worse than linear takes minutes.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is said first about `let x = …` with this value, on a thread with 2 MiB of stack.
fn first_message(value: &str) -> Option<String> {
    on_small_stack(format!("fn f() {{ let x = {value} }}"))
}

/// What is said first about a text. It is formatted as well if it parses, and shown.
fn on_small_stack(text: String) -> Option<String> {
    let start = Instant::now();
    let parse = move || match tree(&text) {
        Ok(_) => format(&text).err(),
        Err(found) => Some(found),
    };
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(parse).expect("a thread");
    let found = thread.join().expect("no panic");
    assert!(start.elapsed() < PATIENCE);
    found.map(|found| found[0].message.clone())
}

#[track_caller]
fn refuses_depth(value: &str) {
    let message = first_message(value).expect("too deep");
    assert!(message.contains("deep"), "{message}");
}

#[test]
fn brackets() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("f(", ")"),
        ("l[", "]"),
        ("a@(", ")"),
        ("-(", ")"),
        ("[i in ", ": i]"),
        ("[i in a if ", ": i]"),
        ("sum(i in a: ", ")"),
        ("(if a then b else ", ")"),
        ("1 + (1 + ", ")"),
    ] {
        let nested = |depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(first_message(&nested(MAX_NESTING - 1)), None, "{open}");
        refuses_depth(&nested(MAX_NESTING));
        refuses_depth(&nested(100_000));
        refuses_depth(&open.repeat(100_000));
    }
}

#[test]
fn errors_in_nested_brackets() {
    for (open, close) in
        [("(", ")"), ("[", "]"), ("f(", ")"), ("[i in ", ": i]"), ("sum(i in a: ", ")")]
    {
        let depth = MAX_NESTING - 1;
        let message = first_message(&format!("{}1 1{}", open.repeat(depth), close.repeat(depth)));
        let message = message.expect("malformed");
        assert!(message.ends_with("found `1`"), "{message}");
    }
}

#[test]
fn rows_of_operators() {
    for (first, next) in [
        ("1", " + 1"),
        ("2", "**2"),
        ("a", "[0]"),
        ("a", "@0"),
        ("a", " and not a"),
        ("1", " * -1"),
    ] {
        assert_eq!(first_message(&format!("{first}{}", next.repeat(100))), None, "{next}");
        refuses_depth(&format!("{first}{}", next.repeat(100_000)));
    }
    for prefix in ["-", "not "] {
        assert_eq!(first_message(&format!("{}a", prefix.repeat(100))), None, "{prefix}");
        refuses_depth(&format!("{}a", prefix.repeat(100_000)));
    }
    refuses_depth(&format!("{}3", "if 1 then 2 else ".repeat(100_000)));
    assert!(first_message(&"if 1 then ".repeat(100_000)).is_some());
}

/// The deepest tree of all: operators and brackets use up one budget.
#[test]
fn brackets_and_operators() {
    let per_bracket = MAX_DEPTH / (MAX_NESTING - 1) - 2;
    let open = format!("f({}", "1 ** ".repeat(per_bracket));
    let value = format!("{}1{}", open.repeat(MAX_NESTING - 1), ")".repeat(MAX_NESTING - 1));
    assert_eq!(first_message(&value), None);
    let value = format!("{}{value}", "2 ** ".repeat(MAX_DEPTH));
    refuses_depth(&value);
}

#[test]
fn blocks() {
    for head in ["for i in a ", "if a ", "on tb 1 ", "for i of a ", "oops "] {
        let nested = |depth: usize| {
            format!(
                "fn f() {{ {}x = y{} }}",
                format!("{head}{{ ").repeat(depth),
                " }".repeat(depth)
            )
        };
        let is_good = !head.contains("of") && !head.contains("oops");
        assert_eq!(on_small_stack(nested(MAX_NESTING - 1)).is_none(), is_good, "{head}");
        assert!(on_small_stack(nested(100_000)).expect(head).contains("deep"));
    }
    let chain =
        |length: usize| format!("fn f() {{ if a {{ }}{} }}", " else if a { }".repeat(length));
    assert_eq!(on_small_stack(chain(100)), None);
    assert!(on_small_stack(chain(100_000)).expect("a long chain").contains("deep"));
}

/// Much of each; none may take quadratic time.
#[test]
fn long_texts() {
    let long = |piece: &str| piece.repeat(100_000 / piece.len());
    for piece in [
        "= ",
        "a b c ",
        "x = y\n",
        "x y\n",
        "{}",
        "else ",
        "; ",
        "# (\n",
        "/* ",
        "\"",
        "'",
        "\\",
        "é",
        "// x\n",
        "a",
        "1",
        "..",
        "f(x) ",
        "on ",
        "if a { } ",
        "} ",
        ") ",
        "\n",
        "  ",
        "\u{0}",
        "@",
        "let ",
        "for ",
        "[] ",
        "[1] = 2 ",
        "x = [1, 2] + 3 * 4 on channel 1, tb 2\n",
        "1,",
    ] {
        on_small_stack(format!("fn f() {{ {} }}", long(piece)));
        on_small_stack(format!("fn f() = [{}]", long(piece)));
        on_small_stack(long(piece));
    }
    for piece in ["fn ", "algorithm ", "import a\n", "fn f() = 1\n", "import "] {
        on_small_stack(long(piece));
    }
}

#[test]
fn flat_lists_may_be_long() {
    assert_eq!(first_message(&format!("[{}1]", "1, ".repeat(100_000))), None);
    assert_eq!(on_small_stack(format!("fn f() {{ {} }}", "x = y ".repeat(50_000))), None);
}

#[test]
fn file_size() {
    let fitting = " ".repeat(MAX_FILE_BYTES);
    assert_eq!(on_small_stack(fitting.clone()), None);
    let message = on_small_stack(fitting + " ").expect("too large");
    assert_eq!(message, "the file has 4194305 bytes; at most 4 MiB are read");
}
