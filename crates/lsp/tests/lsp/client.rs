//! An editor that keeps a text of its own, in UTF-16, and holds the server to it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lsp_server::{Message, Notification, Request, RequestId, Response};
use msccl_lsp::{Connection, Host, Picture, TimelineRequest, serve};
use msccl_topology::cluster::Cluster;
use msccl_topology::cluster::presets::preset;
use serde_json::{Value, json};

/// How long an answer may take before the test has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Files that are not there, but for those given.
#[derive(Default)]
pub struct FakeHost {
    pub files: HashMap<String, String>,
}

impl Host for FakeHost {
    fn canonical_name(&self, path: &Path) -> String {
        path.to_str().unwrap().to_owned()
    }

    fn load(&self, importer: &str, path: &str) -> Result<(String, String), String> {
        let name = Path::new(importer).parent().unwrap_or(Path::new("/")).join(path);
        let name = name.to_str().unwrap().to_owned();
        let text = self.files.get(&name).ok_or("there is no such file")?;
        Ok((name, text.clone()))
    }

    fn programs(&self, _folder: &Path) -> Vec<String> {
        self.files.keys().cloned().collect()
    }

    fn module_file(&self, module: &str) -> Option<PathBuf> {
        Some(PathBuf::from(format!("/library/{module}.msccl")))
    }

    fn cluster(&self, what: &str) -> Result<Cluster, String> {
        preset(what).ok_or_else(|| format!("there is no machine `{what}`"))
    }

    fn timeline(&self, request: &TimelineRequest) -> Result<Picture, String> {
        let svg = format!("<svg>{} {:?}</svg>", request.algorithm, request.ranks);
        Ok(Picture { svg, file: PathBuf::from("/pictures/timeline.svg") })
    }
}

/// An editor with one text open.
pub struct Client {
    connection: Connection,
    server: Option<JoinHandle<()>>,
    next: i32,
    pub uri: String,
    pub version: i32,
    pub text: String,
    /// All diagnostics that came, with their versions.
    pub published: Vec<Published>,
    /// Messages shown.
    pub shown: Vec<String>,
}

/// Diagnostics as they came.
#[derive(Clone, Debug)]
pub struct Published {
    pub uri: String,
    pub version: Option<i32>,
    pub diagnostics: Value,
    pub at: Instant,
}

impl Client {
    /// An editor that has opened `text` as `/project/main.msccl`.
    pub fn open(text: &str) -> Self {
        Self::with(FakeHost::default(), Value::Null, text)
    }

    /// The same, with other files and settings.
    pub fn with(host: FakeHost, settings: Value, text: &str) -> Self {
        let (near, far) = Connection::memory();
        let server = std::thread::spawn(move || serve(&far, Arc::new(host)).unwrap());
        let mut client = Self {
            connection: near,
            server: Some(server),
            next: 0,
            uri: "file:///project/main.msccl".to_owned(),
            version: 1,
            text: text.to_owned(),
            published: Vec::new(),
            shown: Vec::new(),
        };
        let folder = json!([{ "uri": "file:///work", "name": "work" }]);
        let options = json!({
            "capabilities": {}, "initializationOptions": settings, "workspaceFolders": folder,
        });
        client.ask("initialize", options).unwrap();
        client.notify("initialized", json!({}));
        let uri = client.uri.clone();
        client.open_other(&uri, text);
        client
    }

    pub fn open_other(&mut self, uri: &str, text: &str) {
        let document = json!({ "uri": uri, "languageId": "msccl", "version": 1, "text": text });
        self.notify("textDocument/didOpen", json!({ "textDocument": document }));
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        let notification = Notification { method: method.to_owned(), params };
        self.connection.sender.send(notification.into()).unwrap();
    }

    /// Sends a request, and gives its number.
    pub fn send(&mut self, method: &str, params: Value) -> RequestId {
        self.next += 1;
        let id = RequestId::from(self.next);
        let request = Request { id: id.clone(), method: method.to_owned(), params };
        self.connection.sender.send(request.into()).unwrap();
        id
    }

    /// A request and its answer.
    pub fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        let id = self.send(method, params);
        self.answer(&id)
    }

    /// The answer to a request.
    pub fn answer(&mut self, id: &RequestId) -> Result<Value, String> {
        loop {
            if let Some(Response { id: of, response_result }) = self.receive(PATIENCE).unwrap()
                && of == *id
            {
                return response_result.map_err(|error| error.message);
            }
        }
    }

    /// The next message; what is no response is kept. `Err` if none comes in time.
    fn receive(&mut self, patience: Duration) -> Result<Option<Response>, ()> {
        match self.connection.receiver.recv_timeout(patience).map_err(|_| ())? {
            Message::Response(response) => Ok(Some(response)),
            Message::Request(request) => panic!("unexpected: {}", request.method),
            Message::Notification(Notification { method, params }) => {
                match method.as_str() {
                    "textDocument/publishDiagnostics" => self.published.push(Published {
                        uri: params["uri"].as_str().unwrap().to_owned(),
                        version: params["version"].as_i64().map(|version| version as i32),
                        diagnostics: params["diagnostics"].clone(),
                        at: Instant::now(),
                    }),
                    "window/showMessage" => {
                        self.shown.push(params["message"].as_str().unwrap().to_owned());
                    }
                    method => panic!("unexpected {method}"),
                }
                Ok(None)
            }
        }
    }

    /// Takes what comes until `is_enough` of the newest diagnostics.
    pub fn diagnostics_until(&mut self, is_enough: impl Fn(&Published) -> bool) -> Published {
        loop {
            if let Some(last) = self.published.last()
                && is_enough(last)
            {
                return last.clone();
            }
            let known = self.published.len();
            while self.published.len() == known {
                self.receive(PATIENCE).expect("the server says nothing more");
            }
        }
    }

    /// The first diagnostics of the newest version.
    pub fn first_diagnostics(&mut self) -> Published {
        let version = self.version;
        let uri = self.uri.clone();
        self.diagnostics_until(|it| it.uri == uri && it.version == Some(version))
    }

    /// The diagnostics of the newest version after its proof.
    pub fn final_diagnostics(&mut self) -> Value {
        self.ask("msccl/verdicts", json!({ "uri": self.uri })).unwrap();
        let last = self.published.iter().rfind(|it| it.uri == self.uri).unwrap();
        assert_eq!(last.version, Some(self.version));
        last.diagnostics.clone()
    }

    /// Replaces UTF-16 units `from..to` of line and character by `new`, here and there.
    pub fn edit(&mut self, range: Value, new: &str) {
        let start = self.offset(&range["start"]);
        let end = self.offset(&range["end"]);
        self.text.replace_range(start..end, new);
        self.version += 1;
        let params = json!({
            "textDocument": { "uri": self.uri, "version": self.version },
            "contentChanges": [{ "range": range, "text": new }],
        });
        self.notify("textDocument/didChange", params);
    }

    /// Replaces the whole text.
    pub fn replace(&mut self, text: &str) {
        self.text = text.to_owned();
        self.version += 1;
        let params = json!({
            "textDocument": { "uri": self.uri, "version": self.version },
            "contentChanges": [{ "text": text }],
        });
        self.notify("textDocument/didChange", params);
    }

    /// The byte at a position, in the plainest way: line by line, unit by unit.
    pub fn offset(&self, position: &Value) -> usize {
        offset(&self.text, position)
    }

    /// The position of the `nth` place where `what` stands, plus `units`.
    pub fn place(&self, what: &str, nth: usize, units: usize) -> Value {
        let (at, _) = self.text.match_indices(what).nth(nth).expect(what);
        position(&self.text, at + units)
    }

    /// Parameters of a request about that place.
    pub fn at(&self, what: &str, nth: usize, units: usize) -> Value {
        json!({ "textDocument": { "uri": self.uri }, "position": self.place(what, nth, units) })
    }

    /// Parameters of a request about the whole text.
    pub fn whole(&self) -> Value {
        let options = json!({ "tabSize": 4, "insertSpaces": true });
        json!({ "textDocument": { "uri": self.uri }, "options": options })
    }

    /// The text of a range.
    pub fn text_at(&self, range: &Value) -> &str {
        &self.text[self.offset(&range["start"])..self.offset(&range["end"])]
    }

    /// The text after edits, which must not overlap.
    pub fn applied(&self, edits: &Value) -> String {
        applied(&self.text, edits)
    }
}

pub fn applied(text: &str, edits: &Value) -> String {
    let bytes = |edit: &Value| {
        let range = &edit["range"];
        offset(text, &range["start"])..offset(text, &range["end"])
    };
    let mut edits: Vec<_> = edits.as_array().unwrap().iter().collect();
    edits.sort_by_key(|edit| bytes(edit).start);
    let mut text = text.to_owned();
    for edit in edits.into_iter().rev() {
        let bytes = {
            let range = &edit["range"];
            offset(&text, &range["start"])..offset(&text, &range["end"])
        };
        text.replace_range(bytes, edit["newText"].as_str().unwrap());
    }
    text
}

/// The lines of a text with their ends: `\n`, `\r\n` or `\r`.
fn lines(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['\n', '\r']) {
        let end = if rest[at..].starts_with("\r\n") { at + 2 } else { at + 1 };
        lines.push(&rest[..end]);
        rest = &rest[end..];
    }
    lines.push(rest);
    lines
}

pub fn offset(text: &str, position: &Value) -> usize {
    let line = position["line"].as_u64().unwrap() as usize;
    let character = position["character"].as_u64().unwrap() as usize;
    let lines = lines(text);
    let before: usize = lines[..line].iter().map(|line| line.len()).sum();
    let content = lines[line].trim_end_matches(['\n', '\r']);
    let units: Vec<u16> = content.encode_utf16().collect();
    assert!(character <= units.len(), "{position} is beyond the line {content:?}");
    let head = String::from_utf16(&units[..character]).expect("within a character");
    before + head.len()
}

pub fn position(text: &str, at: usize) -> Value {
    let before = lines(&text[..at]);
    // What ends with `\r` before a `\n` is no line yet.
    let line = before.len() - 1;
    let character = before[line].encode_utf16().count();
    json!({ "line": line, "character": character })
}

impl Drop for Client {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let id = self.send("shutdown", Value::Null);
        self.answer(&id).unwrap();
        self.notify("exit", Value::Null);
        self.server.take().unwrap().join().unwrap();
    }
}
