//! Random programs, with blanks and comments strewn in: their layout keeps what they say. Random
//! texts: whatever they are, they are answered.

use msccl_syntax::{FileId, SourceMap, format, parse};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::tree::{parsed, tree};

/// The tokens of a part of a program.
type Tokens = Vec<String>;

fn tokens(text: &str) -> Tokens {
    text.split(' ').filter(|token| !token.is_empty()).map(str::to_string).collect()
}

fn word(words: &'static [&'static str]) -> BoxedStrategy<Tokens> {
    select(words).prop_map(tokens).boxed()
}

fn name() -> BoxedStrategy<Tokens> {
    word(&["a", "N", "chunks", "tb", "root", "send", "a_rather_long_name", "channel", "_x1"])
}

/// The parts, joined by a token.
fn joined(parts: Vec<Tokens>, by: &str) -> Tokens {
    parts.join(&by.to_string()).into_iter().filter(|token| !token.is_empty()).collect()
}

/// The parts in a row; plain texts and generated tokens alike.
macro_rules! row {
    ($($part:expr),*) => { [$(Tokens::from($part)),*].concat() };
}

fn expr() -> BoxedStrategy<Tokens> {
    operation(operand())
}

fn operand() -> BoxedStrategy<Tokens> {
    let leaf = prop_oneof![
        3 => name(),
        2 => word(&["0", "1_000", "64KiB", "true", "\"a//b\"", "[ ]", "f ( )"]),
        1 => word(&["input", "output @ 3", "tmp @ r [ 0 ]"]),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        let operation = operation(inner.clone());
        let list = vec(operation.clone(), 0..4).prop_map(|parts| joined(parts, ","));
        let binders = binders(operation.clone());
        prop_oneof![
            operation.clone().prop_map(|e| row![tokens("("), e, tokens(")")]),
            list.clone().prop_map(|l| row![tokens("["), l, tokens("]")]),
            (name(), list).prop_map(|(f, l)| row![f, tokens("("), l, tokens(")")]),
            (binders.clone(), operation.clone()).prop_map(|(b, e)| row![
                tokens("["),
                b,
                tokens(":"),
                e,
                tokens("]")
            ]),
            (binders, operation.clone()).prop_map(|(b, e)| row![
                tokens("sum ("),
                b,
                tokens(":"),
                e,
                tokens(")")
            ]),
            (inner, operation.clone()).prop_map(|(b, i)| {
                row![tokens("("), b, tokens(")"), tokens("["), i, tokens("]")]
            }),
            [operation.clone(), operation.clone(), operation].prop_map(|[c, a, b]| {
                row![tokens("( if"), c, tokens("then"), a, tokens("else"), b, tokens(")")]
            }),
        ]
    })
    .boxed()
}

/// A row of operators that means something: no chains, `not` where it may stand.
fn operation(operand: BoxedStrategy<Tokens>) -> BoxedStrategy<Tokens> {
    let signed = (word(&["", "", "", "-", "- -"]), operand).prop_map(|(sign, e)| row![sign, e]);
    let op = word(&["+", "-", "*", "/", "%", "**", "<<", ">>", "&", "|", "^"]);
    let sum = (signed.clone(), vec((op, signed), 0..2)).prop_map(row_of);
    let step = proptest::option::weighted(0.3, sum.clone());
    let to = (sum.clone(), step).prop_map(|(to, by)| {
        row![tokens(".."), to, by.map_or(vec![], |by| row![tokens("by"), by])]
    });
    let range = (sum, proptest::option::weighted(0.2, to))
        .prop_map(|(from, to)| row![from, to.unwrap_or_default()]);
    let sign = word(&["==", "!=", "<", "<=", ">", ">="]);
    let comparison = (
        word(&["", "", "", "not", "not not"]),
        range.clone(),
        proptest::option::weighted(0.2, (sign, range)),
    )
        .prop_map(|(not, left, right)| row![not, left, right.map_or(vec![], |(s, r)| row![s, r])]);
    let logical = word(&["and", "or"]);
    (comparison.clone(), vec((logical, comparison), 0..2)).prop_map(row_of).boxed()
}

fn row_of((first, rest): (Tokens, Vec<(Tokens, Tokens)>)) -> Tokens {
    rest.into_iter().fold(first, |row, (op, operand)| row![row, op, operand])
}

fn binders(operation: BoxedStrategy<Tokens>) -> BoxedStrategy<Tokens> {
    let pattern = prop_oneof![3 => name(), 1 => word(&["[ a , b ]", "[ a ]"])];
    let binder = (pattern, operation.clone()).prop_map(|(p, e)| row![p, tokens("in"), e]);
    let list = vec(binder, 1..3).prop_map(|list| joined(list, ","));
    (list, proptest::option::of(operation))
        .prop_map(|(list, filter)| row![list, filter.map_or(vec![], |f| row![tokens("if"), f])])
        .boxed()
}

fn hints() -> BoxedStrategy<Tokens> {
    let kind = word(&["channel", "tb", "send tb", "receive tb"]);
    let hint = (kind, expr()).prop_map(|(kind, e)| row![kind, e]);
    vec(hint, 1..3).prop_map(|list| row![tokens("on"), joined(list, ",")]).boxed()
}

fn maybe(strategy: BoxedStrategy<Tokens>) -> BoxedStrategy<Tokens> {
    proptest::option::of(strategy).prop_map(Option::unwrap_or_default).boxed()
}

fn statement() -> BoxedStrategy<Tokens> {
    let place = word(&["a", "tmp @ ( r + 1 ) [ 0 ]", "input @ 1 [ a .. b ]", "f ( x ) [ 0 ]"]);
    let leaf = prop_oneof![
        (name(), expr()).prop_map(|(n, e)| row![tokens("let"), n, tokens("="), e]),
        (name(), expr()).prop_map(|(n, e)| row![tokens("scratch"), n, tokens("["), e, tokens("]")]),
        (expr(), word(&["", ", \"why\""])).prop_map(|(e, why)| row![tokens("require"), e, why]),
        (place, word(&["=", "+="]), expr(), maybe(hints()))
            .prop_map(|(p, op, e, h)| row![p, op, e, h]),
        (word(&["g ( )", "g ( a , b )"]), maybe(hints())).prop_map(|(call, h)| row![call, h]),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        let block = block(inner);
        let others = vec((expr(), block.clone()), 0..3).prop_map(|list| {
            let list = list.into_iter().map(|(c, b)| row![tokens("else if"), c, b]);
            list.collect::<Vec<_>>().concat()
        });
        let last = maybe(block.clone().prop_map(|b| row![tokens("else"), b]).boxed());
        prop_oneof![
            (binders(expr()), maybe(hints()), block.clone()).prop_map(|(b, h, body)| row![
                tokens("for"),
                b,
                h,
                body
            ]),
            (hints(), block.clone()).prop_map(|(h, body)| row![h, body]),
            (expr(), block, others, last).prop_map(|(c, then, others, last)| row![
                tokens("if"),
                c,
                then,
                others,
                last
            ]),
        ]
    })
    .boxed()
}

fn block(statement: BoxedStrategy<Tokens>) -> BoxedStrategy<Tokens> {
    vec(statement, 0..4).prop_map(|list| row![tokens("{"), list.concat(), tokens("}")]).boxed()
}

fn item() -> BoxedStrategy<Tokens> {
    let params = |first: &'static str| {
        let rest = vec((name(), maybe(expr().prop_map(|e| row![tokens("="), e]).boxed())), 0..3);
        rest.prop_map(move |list| {
            let list = list.into_iter().map(|(n, value)| row![n, value]);
            let first = (!first.is_empty()).then(|| tokens(first));
            row![tokens("("), joined(first.into_iter().chain(list).collect(), ","), tokens(")")]
        })
    };
    let labelled = (name(), expr()).prop_map(|(label, e)| row![label, e]);
    let implements = (name(), vec(labelled, 0..3)).prop_map(|(n, list)| {
        row![tokens("implements"), n, tokens("("), joined(list, ","), tokens(")")]
    });
    let clause = word(&[
        "in place",
        "protocol LL",
        "instances 2 + 1",
        "interleaved 2 + 1",
        "bytes 0 .. 2 * K",
        "bytes 1 ..",
        "threads t",
        "order flat",
    ]);
    let clauses = vec(clause, 0..3).prop_map(|list| list.concat());
    let body = block(statement());
    prop_oneof![
        (name(), params(""), expr()).prop_map(|(n, p, e)| row![tokens("fn"), n, p, tokens("="), e]),
        (name(), params(""), body.clone()).prop_map(|(n, p, b)| row![tokens("fn"), n, p, b]),
        (name(), params("ranks N = 8"), implements, clauses, body)
            .prop_map(|(n, p, i, c, b)| row![tokens("algorithm"), n, p, i, c, b]),
    ]
    .boxed()
}

/// What seldom stands between two tokens.
const RARE_GAPS: &[&str] =
    &["\n\n\n", "\t", " // c\n", "\n// own { line\n", "\n\n  // \"apart\n\n", " //\r\n"];

/// What stands between two tokens.
fn blank() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        20 => Just(" "),
        4 => Just(""),
        2 => Just("\n"),
        1 => select(RARE_GAPS),
    ]
}

/// A program, some blanks and comments between its tokens.
fn program() -> impl Strategy<Value = String> {
    let imports = vec(word(&["import ring", "import \"a/b.msccl\""]), 0..2);
    let file = (imports, vec(item(), 0..4)).prop_map(|(i, items)| row![i.concat(), items.concat()]);
    (file, vec(blank(), 40)).prop_map(|(file, blanks)| {
        let mut text = String::new();
        for (token, blank) in file.iter().zip(blanks.iter().cycle()) {
            let is_wordy = |c: Option<char>| c.is_some_and(|c| !"()[]{},:@".contains(c));
            let need = is_wordy(text.chars().last()) && is_wordy(token.chars().next());
            let is_apart = text.ends_with([' ', '\t', '\n']);
            text += if need && !is_apart && blank.is_empty() { " " } else { blank };
            // Without its blank, a comment would swallow the token.
            text += token;
        }
        text
    })
}

/// The comments of a text; the programs have strings with `//` in them.
fn comments(text: &str) -> Vec<String> {
    let comment = |line: &str| {
        let line = line.replace("\"a//b\"", "");
        line.split_once("//").map(|(_, comment)| comment.trim_end().to_string())
    };
    text.lines().filter_map(comment).collect()
}

fn check_layout(text: &str) {
    let meaning = parsed(text);
    let formatted = format(text).expect(text);
    assert_eq!(parsed(&formatted), meaning, "{formatted}");
    assert_eq!(comments(&formatted), comments(text), "{formatted}");
    assert_eq!(format(&formatted).expect(&formatted), formatted, "not stable");
    assert!(!formatted.lines().any(|line| line.ends_with(' ')), "{formatted}");
    assert!(!formatted.contains("\n\n\n") && !formatted.starts_with('\n'), "{formatted}");
}

/// A text that is answered by a tree or by diagnostics that can be drawn.
fn check_answer(text: &str) {
    let mut sources = SourceMap::new();
    let file = sources.add("test.msccl", text);
    if let Err(found) = parse(&sources, file) {
        assert!(!found.is_empty());
        assert!(sources.render_all(&found).contains("error: "));
        let labels = found.iter().flat_map(|diagnostic| &diagnostic.labels);
        for span in labels.map(|label| label.span) {
            assert_eq!(span.file, FileId(0));
            assert!(text.get(span.start as usize..span.end as usize).is_some(), "{span:?}");
        }
        assert!(found.iter().all(|diagnostic| !diagnostic.message.contains("defect")), "{found:?}");
    }
    assert_eq!(format(text).is_ok(), tree(text).is_ok());
}

/// Pieces of programs in any order.
fn soup() -> impl Strategy<Value = String> {
    let piece = select(
        &[
            "import",
            "fn",
            "f(",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "{ }",
            "algorithm",
            "implements",
            "in",
            "place",
            "let",
            "if",
            "then",
            "else",
            "for",
            "i in",
            "on",
            "channel 1",
            "scratch",
            "require",
            "given",
            "promise",
            "sum(",
            "not",
            "and",
            "=",
            "+=",
            "==",
            "+",
            "-",
            "**",
            "..",
            "by",
            "@",
            ",",
            ":",
            "a",
            "input",
            "1",
            "9KiB",
            "\"s\"",
            "// c\n",
            "\n",
            ";",
            "#",
            "é",
            "\"",
            "input@1[0] = x\n",
        ][..],
    );
    vec(piece, 0..60).prop_map(|pieces| pieces.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn formatting_keeps_the_meaning_of_programs(text in program()) {
        check_layout(&text);
    }

    #[test]
    fn any_pieces_are_answered(text in soup()) {
        check_answer(&text);
        check_answer(&format!("fn f() {{ {text} }}"));
    }

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        check_answer(&text);
    }

    #[test]
    fn programs_cut_short_are_answered(text in program(), cut in any::<prop::sample::Index>()) {
        let cuts: Vec<_> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
        let at = *cut.get(&cuts);
        check_answer(&text[..at]);
        check_answer(&text[at..]);
    }
}
