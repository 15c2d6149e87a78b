//! Definitions, references, renaming: across files and the standard library.

use serde_json::{Value, json};

use crate::client::{Client, FakeHost, applied};

const OTHER: &str = "// Doubles.\nfn twice(a) = 2*a\nfn four(a) = twice(twice(a))\n";
const MAIN: &str = "import \"other.msccl\"
import ring
import blocks

algorithm a(ranks N = 2) implements allreduce(chunks N) in place {
    let 😀 = 1
    let n = twice(1)
    for n in 0..N { let m = n }
    ring_allreduce(0..N, input, cut(0..n, N))
}
";

fn client() -> Client {
    let files = [("/project/other.msccl".to_owned(), OTHER.to_owned())].into();
    Client::with(FakeHost { files }, Value::Null, MAIN)
}

#[test]
fn definitions_are_found_in_other_files() {
    let mut client = client();
    let found = client.ask("textDocument/definition", client.at("twice", 0, 2)).unwrap();
    assert_eq!(found[0]["uri"], "file:///project/other.msccl");
    assert_eq!(found[0]["range"]["start"], json!({ "line": 1, "character": 3 }));
    let found = client.ask("textDocument/definition", client.at("ring_allreduce", 0, 2)).unwrap();
    assert_eq!(found[0]["uri"], "file:///library/ring.msccl");
    let found = client.ask("textDocument/definition", client.at("import blocks", 0, 9)).unwrap();
    assert_eq!(found[0]["uri"], "file:///library/blocks.msccl");
    let found = client.ask("textDocument/definition", client.at("= n }", 0, 2)).unwrap();
    assert_eq!(client.text_at(&found[0]["range"]), "n");
    assert_eq!(found[0]["range"]["start"]["line"], 7);
}

#[test]
fn references_are_found_in_files_that_are_not_open() {
    let mut client = client();
    let mut params = client.at("twice", 0, 0);
    params["context"] = json!({ "includeDeclaration": true });
    let found = client.ask("textDocument/references", params).unwrap();
    let found = found.as_array().unwrap();
    let of = |uri: &str| found.iter().filter(|it| it["uri"] == uri).count();
    assert_eq!(of("file:///project/other.msccl"), 3, "{found:?}");
    assert_eq!(of("file:///project/main.msccl"), 1, "{found:?}");
}

#[test]
fn functions_are_renamed_in_all_files() {
    let mut client = client();
    let mut params = client.at("twice", 0, 1);
    params["newName"] = json!("double");
    let edit = client.ask("textDocument/rename", params).unwrap();
    let other = applied(OTHER, &edit["changes"]["file:///project/other.msccl"]);
    assert_eq!(other, OTHER.replace("twice", "double"));
    let main = client.applied(&edit["changes"][&client.uri]);
    assert_eq!(main, MAIN.replace("twice", "double"));
}

#[test]
fn names_that_would_be_captured_are_refused() {
    let mut client = client();
    let mut rename = |what: &str, nth: usize, units: usize, new: &str| {
        let mut params = client.at(what, nth, units);
        params["newName"] = json!(new);
        client.ask("textDocument/rename", params).unwrap_err()
    };
    assert!(rename("twice", 0, 0, "four").contains("defined already"));
    assert!(rename("twice", 0, 0, "len").contains("is built in"));
    assert!(rename("twice", 0, 0, "for").contains("expected a name"));
    assert!(rename("ring_allreduce", 0, 0, "x").contains("standard library"));
    assert!(rename("let n", 0, 4, "N").contains("would mean something else"));
    assert!(rename("algorithm", 0, 0, "x").contains("put the cursor on a name"));
}

#[test]
fn locals_are_renamed_within_their_scope() {
    let mut client = client();
    let mut params = client.at("for n", 0, 4);
    params["newName"] = json!("index");
    let edit = client.ask("textDocument/rename", params).unwrap();
    let main = client.applied(&edit["changes"][&client.uri]);
    assert_eq!(
        main,
        MAIN.replace("for n in 0..N { let m = n }", "for index in 0..N { let m = index }")
    );
}

#[test]
fn labels_are_renamed_with_their_parameter() {
    let text = "collective c(ranks N, width = 1) {\n    given input@0[0..width]\n}\n\
                algorithm a(ranks N = 2) implements c(width 2) { }\n";
    let mut client = Client::open(text);
    let mut params = client.at("width 2", 0, 1);
    params["newName"] = json!("wide");
    let edit = client.ask("textDocument/rename", params).unwrap();
    assert_eq!(client.applied(&edit["changes"][&client.uri]), text.replace("width", "wide"));
}
