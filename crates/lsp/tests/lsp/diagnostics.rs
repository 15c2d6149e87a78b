//! Diagnostics: what is wrong, where, and that the command says the same.

use serde_json::{Value, json};

use crate::client::{Client, FakeHost};

fn messages(diagnostics: &Value) -> Vec<String> {
    let all = diagnostics.as_array().unwrap().iter();
    all.map(|it| it["message"].as_str().unwrap().lines().next().unwrap().to_owned()).collect()
}

#[test]
fn several_mistakes_are_shown_at_once() {
    let text = "algorithm 😀slips(ranks N = 4) implements allgather() {\r\n    \
                /* 😀 */ if N > 2 && N < 9 { }\r\n    output@0[0] -= input@0[0]\r\n}\r\n";
    let mut client = Client::open(text);
    let found = client.first_diagnostics().diagnostics;
    let marked = found.as_array().unwrap().iter();
    let marked: Vec<_> = marked.map(|it| client.text_at(&it["range"])).collect();
    assert_eq!(marked, ["😀", "/* 😀 */", "&&", "-="], "{found:#}");
}

#[test]
fn meanings_are_checked_and_related_places_shown() {
    let text = "fn f(a) = a\nfn f(b) = b\nalgorithm x(ranks N = 2) implements allreduce() { }\n";
    let mut client = Client::open(text);
    let found = client.first_diagnostics().diagnostics;
    assert_eq!(messages(&found), ["the function `f` is defined twice: again here"]);
    let related = &found[0]["relatedInformation"][0];
    assert_eq!(related["message"], "first here");
    assert_eq!(client.text_at(&related["location"]["range"]), "f");
    assert_eq!(related["location"]["range"]["start"]["line"], 0);
}

#[test]
fn broken_promises_stand_at_their_statement() {
    let text = "algorithm swap(ranks N = 2) implements allreduce() in place {\n    \
                input@0 += input@1\n    input@1 += input@0\n}\n";
    let mut client = Client::open(text);
    let found = client.first_diagnostics().diagnostics;
    assert_eq!(found[0]["code"], "wrong-result");
    assert_eq!(client.text_at(&found[0]["range"]), "input@1 += input@0");
}

#[test]
fn mistakes_of_other_files_stand_at_the_import() {
    let files = [("/project/other.msccl".to_owned(), "fn f(".to_owned())].into();
    let text = "import \"other.msccl\"\nalgorithm x(ranks N = 1) implements allreduce() { }\n";
    let mut client = Client::with(FakeHost { files }, Value::Null, text);
    let found = client.first_diagnostics().diagnostics;
    assert_eq!(client.text_at(&found[0]["range"]), "import \"other.msccl\"");
    let place = &found[0]["relatedInformation"][0]["location"];
    assert_eq!(place["uri"], "file:///project/other.msccl");
}

#[test]
fn a_module_needs_no_algorithm() {
    let mut client = Client::open("fn f(a) = a\n");
    assert_eq!(client.first_diagnostics().diagnostics, json!([]));
    client.replace("fn f(a) = b\n");
    let found = client.first_diagnostics().diagnostics;
    assert_eq!(messages(&found), ["nothing here is called `b`"]);
}

#[test]
fn open_files_count_before_what_is_on_disk() {
    let files = [("/project/other.msccl".to_owned(), "fn f(a) = a\n".to_owned())].into();
    let text = "import \"other.msccl\"\n\
                algorithm x(ranks N = 1) implements allreduce() { output@0 = input@f(0) }\n";
    let text = text.replace("input@f(0)", "input@(f(0))");
    let mut client = Client::with(FakeHost { files }, Value::Null, &text);
    assert_eq!(client.final_diagnostics(), json!([]));
    client.open_other("file:///project/other.msccl", "fn g(a) = a\n");
    let main = client.uri.clone();
    let found = client.diagnostics_until(|it| it.uri == main && it.diagnostics != json!([]));
    let said = messages(&found.diagnostics);
    assert!(said[0].starts_with("there is no function `f`"), "{said:?}");
}
