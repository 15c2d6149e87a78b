//! The process: it says what `msccl check` says, and ends when it is to.

use std::fs;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use lsp_server::{Message, Notification, Request, Response};
use serde_json::{Value, json};

use crate::{MSCCL, folder};

/// An editor, for one conversation.
struct Editor {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: i32,
    diagnostics: Value,
}

impl Editor {
    fn new(folder: &Path) -> Self {
        let mut command = Command::new(MSCCL);
        command.arg("lsp").current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut editor = Self { process, input, output, next: 0, diagnostics: Value::Null };
        editor.ask("initialize", json!({ "capabilities": {} }));
        editor.notify("initialized", json!({}));
        editor
    }

    fn write(&mut self, message: Message) {
        message.write(&mut self.input).unwrap();
        self.input.flush().unwrap();
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.write(Notification { method: method.to_owned(), params }.into());
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next.into();
        self.write(Request { id, method: method.to_owned(), params }.into());
        loop {
            match Message::read(&mut self.output).unwrap().expect("the server has ended") {
                Message::Response(Response { response_result, .. }) => {
                    return response_result.unwrap_or_else(|error| panic!("{}", error.message));
                }
                Message::Notification(Notification { method, params }) => {
                    assert_eq!(method, "textDocument/publishDiagnostics");
                    self.diagnostics = params["diagnostics"].clone();
                }
                Message::Request(request) => panic!("unexpected: {}", request.method),
            }
        }
    }

    /// The diagnostics of a file after its proof.
    fn diagnostics(&mut self, path: &Path) -> Value {
        let uri = format!("file://{}", path.display());
        let text = fs::read_to_string(path).unwrap();
        let document = json!({ "uri": uri, "languageId": "msccl", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
        self.ask("msccl/verdicts", json!({ "uri": uri }));
        let found = self.diagnostics.take();
        self.notify("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
        found
    }

    fn end(mut self) {
        self.ask("shutdown", Value::Null);
        self.notify("exit", Value::Null);
        assert!(self.process.wait().unwrap().success());
    }
}

/// Where, how bad and what, as both say it: lines and columns from 1.
type Said = (u64, u64, String, String);

fn of_check(path: &Path) -> Vec<Said> {
    let args = ["check", "--format", "json", path.to_str().unwrap()];
    let output = Command::new(MSCCL).args(args).output().unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = found["diagnostics"].as_array().unwrap().iter().map(|it| {
        let text = |name: &str| it[name].as_str().unwrap().to_owned();
        let number = |name: &str| it[name].as_u64().unwrap();
        (number("line"), number("column"), text("severity"), text("message"))
    });
    sorted(said.collect())
}

fn of_editor(found: &Value) -> Vec<Said> {
    let said = found.as_array().unwrap().iter().map(|it| {
        let start = &it["range"]["start"];
        let number = |name: &str| start[name].as_u64().unwrap() + 1;
        let severity = if it["severity"] == 1 { "error" } else { "warning" };
        let message = it["message"].as_str().unwrap().split("\nhint: ").next().unwrap();
        (number("line"), number("character"), severity.to_owned(), message.to_owned())
    });
    sorted(said.collect())
}

fn sorted(mut said: Vec<Said>) -> Vec<Said> {
    said.sort();
    said
}

const WRONG: [&str; 6] = [
    "algorithm slips(ranks N = 4) implements allgather() {\n    for r in 0..=N - 1 {\n    }\n    \
     if N > 2 && N < 9 { }\n    output@0[0] -= input@0[0]\n}\n",
    "algorithm down(ranks N = 4) implements allreduce() in place {\n    \
     for r in 0..N, q in 0..N if q != r and q == 0 { input@q += input@r }\n    \
     for r in N-1..0 { input@r = input@0 }\n    \
     for r in reverse(1..N) { input@r = input@0 }\n}\n",
    "algorithm swap(ranks N = 2) implements allreduce() in place {\n    input@0 += input@1\n    \
     input@1 += input@0\n}\n",
    "algorithm order(ranks N = 4) implements allreduce() in place order flat {\n    \
     for r in 1..N { input@0 += input@r }\n    for r in 1..N { input@r = input@0 }\n}\n",
    "algorithm unread(ranks N = 3) implements broadcast(root 0) {\n    scratch box[1]\n    \
     box@1 = input@0\n    for r in 0..N { output@r = input@0 }\n}\n",
    "fn f(\n",
];

#[test]
fn the_server_says_what_the_command_says() {
    let folder = folder("process");
    let mut editor = Editor::new(&folder);
    let mut wrong = 0;
    for (number, text) in WRONG.into_iter().enumerate() {
        let path = folder.join(format!("wrong{number}.msccl"));
        fs::write(&path, text).unwrap();
        let expected = of_check(&path);
        assert_eq!(of_editor(&editor.diagnostics(&path)), expected, "{text}");
        wrong += usize::from(!expected.is_empty());
    }
    assert_eq!(wrong, WRONG.len(), "all of these have something to say of");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl-examples");
    for name in ["allreduce/ring", "allreduce/hierarchical", "custom/scan", "alltoall/two_step"] {
        let path = examples.join(name).with_extension("msccl").canonicalize().unwrap();
        assert_eq!(of_editor(&editor.diagnostics(&path)), of_check(&path), "{name}");
    }
    editor.end();
}
