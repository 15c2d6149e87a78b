//! Hover, completion, signatures, outline, folding, colours, layout, actions.

use serde_json::{Value, json};

use crate::client::{Client, FakeHost};

const TEXT: &str = "import ring
import blocks

// Adds one. 😀
fn next(r, n) = (r + 1) % n

algorithm a(ranks N = 4, C = 1) implements allreduce(chunks N) in place {
    for r in 1..N {
        let 	x = next(r, N)
        input@0 += input@r
    }
    for r in 1..N { input@r = input@0 }
}
";

fn labels(items: &Value) -> Vec<String> {
    let items = items.as_array().unwrap().iter();
    items.map(|it| it["label"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn hover_says_what_names_are_and_what_statements_move() {
    let mut client = Client::open(TEXT);
    client.final_diagnostics();
    let mut hover = |what: &str, nth: usize, units: usize| {
        let found = client.ask("textDocument/hover", client.at(what, nth, units)).unwrap();
        found["contents"]["value"].as_str().unwrap_or_default().to_owned()
    };
    let function = hover("next(r, N)", 0, 1);
    assert!(function.contains("fn next(r, n)") && function.contains("Adds one. 😀"), "{function}");
    let statement = hover("input@0 += input@r", 0, 8);
    assert!(statement.contains("For 4 ranks: 0 copies, 3 reductions"), "{statement}");
    let first = "output@0[0..4] += output@1[0..4]    // input@0[0] → sum of input@{0, 1}[0]";
    assert!(statement.contains(first), "{statement}");
    assert!(statement.contains("// sum of input@0…2[0] → sum of input@0…3[0]"), "{statement}");
    let algorithm = hover("a(ranks", 0, 0);
    assert!(algorithm.contains("**proved** for 4 ranks"), "{algorithm}");
    assert!(hover("ranks N", 0, 1).contains("counts the ranks"));
    assert!(hover("implements", 0, 1).contains("Which collective"));
    assert!(hover("allreduce", 0, 1).contains("sum of all inputs"));
}

#[test]
fn completion_knows_what_fits() {
    let mut client = Client::open(TEXT);
    let complete = |client: &mut Client, typed: &str| {
        let text = TEXT.replace("        let 	x", &format!("        {typed}\n        let 	x"));
        client.replace(&text);
        let params = client.at(typed, 0, typed.len());
        client.ask("textDocument/completion", params).unwrap()
    };
    let found = labels(&complete(&mut client, "input@0 = inp"));
    for expected in
        ["N", "C", "r", "next", "ring_allreduce", "cut", "len", "input", "sum", "tree_parent"]
    {
        assert!(found.iter().any(|it| it == expected), "{expected}: {found:?}");
    }
    assert!(!found.iter().any(|it| it == "x"), "what is not in sight yet: {found:?}");
    assert_eq!(labels(&complete(&mut client, "on ")), ["channel", "tb", "send tb", "receive tb"]);
    assert_eq!(labels(&complete(&mut client, "let ")), [""; 0]);
    client.replace("import ");
    let found = client.ask("textDocument/completion", client.at("import ", 0, 7)).unwrap();
    assert!(labels(&found).contains(&"balanced".to_owned()));
    client.replace("algorithm a(ranks N = 2) implements ");
    let found = client.ask("textDocument/completion", client.at("implements ", 0, 11)).unwrap();
    assert_eq!(found[0]["insertText"], "allreduce($0)");
}

#[test]
fn completion_imports_what_it_needs() {
    let mut client = Client::open(TEXT);
    let found = client.ask("textDocument/completion", client.at("input@0", 0, 0)).unwrap();
    let items = found.as_array().unwrap();
    let item = items.iter().find(|it| it["label"] == "tree_parent").unwrap();
    let after = client.applied(&item["additionalTextEdits"]);
    assert!(after.starts_with("import ring\nimport blocks\nimport tree\n\n// Adds"), "{after}");
}

#[test]
fn signatures_follow_the_cursor() {
    let mut client = Client::open(TEXT);
    let help = |client: &mut Client, what: &str, units: usize| {
        client.ask("textDocument/signatureHelp", client.at(what, 0, units)).unwrap()
    };
    let found = help(&mut client, "next(r, N)", 8);
    assert_eq!(found["signatures"][0]["label"], "next(r, n)");
    assert_eq!(found["activeParameter"], 1);
    let found = help(&mut client, "allreduce(", 10);
    assert_eq!(found["signatures"][0]["label"], "allreduce(chunks 1)");
    client.replace(&TEXT.replace("next(r, N)", "ring_allreduce([1, 2], "));
    let found = help(&mut client, "[1, 2], ", 8);
    assert_eq!(found["signatures"][0]["label"], "ring_allreduce(group, buffer, blocks)");
    assert_eq!(found["activeParameter"], 1);
}

#[test]
fn outline_and_folds_show_the_structure() {
    let mut client = Client::open(TEXT);
    let symbols = client.ask("textDocument/documentSymbol", client.whole()).unwrap();
    let names: Vec<_> = symbols.as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names, ["next", "a"]);
    assert_eq!(symbols[1]["children"][1]["name"], "C");
    assert_eq!(client.text_at(&symbols[1]["selectionRange"]), "a");
    let folds = client.ask("textDocument/foldingRange", client.whole()).unwrap();
    let lines = folds.as_array().unwrap().iter();
    let lines: Vec<_> = lines.map(|it| (it["startLine"].clone(), it["endLine"].clone())).collect();
    assert_eq!(lines, [(json!(6), json!(11)), (json!(7), json!(9))]);
    // A slip does not hide the rest.
    client.replace(&TEXT.replace("let 	x = next(r, N)", "let 😀 = ("));
    let symbols = client.ask("textDocument/documentSymbol", client.whole()).unwrap();
    assert_eq!(symbols.as_array().unwrap().len(), 2);
}

#[test]
fn colours_are_counted_in_utf16() {
    let text = "// 😀 a\nfn f(a) = len([a]) // 😀\nfn g(b) = f(b)\n";
    let mut client = Client::open(text);
    let found = client.ask("textDocument/semanticTokens/full", client.whole()).unwrap();
    let data: Vec<u64> =
        found["data"].as_array().unwrap().iter().map(|it| it.as_u64().unwrap()).collect();
    let (mut line, mut character) = (0, 0);
    let mut seen = Vec::new();
    for token in data.chunks(5) {
        character = if token[0] == 0 { character + token[1] } else { token[1] };
        line += token[0];
        let range = json!({
            "start": { "line": line, "character": character },
            "end": { "line": line, "character": character + token[2] },
        });
        seen.push((client.text_at(&range).to_owned(), token[3]));
    }
    let expected = [
        ("// 😀 a", 0),
        ("fn", 3),
        ("f", 5),
        ("a", 8),
        ("=", 4),
        ("len", 5),
        ("a", 8),
        ("// 😀", 0),
        ("fn", 3),
        ("g", 5),
        ("b", 8),
        ("=", 4),
        ("f", 5),
        ("b", 8),
    ];
    assert_eq!(seen, expected.map(|(text, class)| (text.to_owned(), class)));
}

#[test]
fn layout_is_that_of_the_formatter() {
    for ending in ["\n", "\r\n"] {
        let text = TEXT.replace('\n', ending);
        let mut client = Client::open(&text);
        let edits = client.ask("textDocument/formatting", client.whole()).unwrap();
        let expected = msccl_syntax::format(&text).unwrap().replace('\n', ending);
        assert_eq!(client.applied(&edits), expected);
        assert_eq!(edits.as_array().unwrap().len(), 1, "no more than needed: {edits:#}");
        let mut params = client.whole();
        let place = |line: u32| json!({ "line": line, "character": 0 });
        params["range"] = json!({ "start": place(0), "end": place(3) });
        let edits = client.ask("textDocument/rangeFormatting", params).unwrap();
        assert_eq!(edits, json!([]));
    }
    let mut client = Client::open("fn f(");
    let edits = client.ask("textDocument/formatting", client.whole()).unwrap();
    assert_eq!(edits, Value::Null);
}

/// The text after the first action for the first diagnostic.
fn repaired(text: &str) -> String {
    let mut client = Client::with(FakeHost::default(), Value::Null, text);
    let found = client.final_diagnostics();
    let params = json!({
        "textDocument": { "uri": client.uri }, "range": found[0]["range"],
        "context": { "diagnostics": [] },
    });
    let actions = client.ask("textDocument/codeAction", params).unwrap();
    let edits = &actions[0]["edit"]["changes"][&client.uri];
    assert!(edits.is_array(), "{found:#} {actions:#}");
    client.applied(edits)
}

#[test]
fn hints_become_actions() {
    let program = |body: &str| {
        format!("algorithm a(ranks N = 4) implements allreduce() {{\n    {body}\n}}\n")
    };
    let check = |wrong: &str, right: &str| {
        assert_eq!(repaired(&program(wrong)), program(right), "{wrong}");
    };
    check("if N > 2 && N < 9 { }", "if N > 2 and N < 9 { }");
    check("let x = 1;", "let x = 1");
    check("# 😀", "// 😀");
    check("output@0 = inptu@0", "output@0 = input@0");
    check("for c in 0..n { }", "for c in 0..N { }");
    let text = program("ring_allreduce(0..N, input, [0..1])");
    assert_eq!(repaired(&text), format!("import ring\n\n{text}"));
    let text = format!("import rign\n{}", program(""));
    assert_eq!(repaired(&text), format!("import ring\n{}", program("")));
}
