//! The conversation with an editor.
//!
//! One thread reads messages and answers them in order; every answer is about the newest text.
//! Judgements run elsewhere ([`crate::worker`]), and come back as events. Every edit cancels the
//! run of its text and starts another, and what an older run still reports is dropped, so that no
//! diagnostic is ever about an older text than the newest that the server has.

mod answer;
mod command;

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, select, unbounded};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification::{
    Cancel, DidChangeConfiguration, DidChangeTextDocument, DidChangeWatchedFiles,
    DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument, Exit, Notification as _,
    PublishDiagnostics,
};
use lsp_types::request::{InlayHintRefreshRequest, Request as _, WorkspaceConfiguration};
use lsp_types::{
    CancelParams, ConfigurationItem, ConfigurationParams, Diagnostic, DiagnosticSeverity,
    DidChangeConfigurationParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, InitializeParams, NumberOrString, PublishDiagnosticsParams, Range,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::capability::{Editor, capabilities};
use crate::document::Document;
use crate::feature::diagnostics;
use crate::host::Host;
use crate::judgement::{Cancellation, Judgement, Question, Stage};
use crate::launch::Settings;
use crate::uri;
use crate::worker::{Event, RunId, Worker};
use crate::workspace::Workspace;

use command::Waiting;

/// Why a conversation broke off.
#[derive(Debug)]
pub struct ServeError(String);

impl std::fmt::Display for ServeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the editor broke off: {}", self.0)
    }
}

impl std::error::Error for ServeError {}

/// Serves an editor until it says goodbye.
///
/// # Errors
///
/// It broke off, or does not speak the protocol.
pub fn serve(connection: &Connection, host: Arc<dyn Host>) -> Result<(), ServeError> {
    let broken = |error: lsp_server::ProtocolError| ServeError(error.to_string());
    let (id, params) = connection.initialize_start().map_err(broken)?;
    let params: InitializeParams =
        serde_json::from_value(params).map_err(|error| ServeError(error.to_string()))?;
    let version = env!("CARGO_PKG_VERSION");
    let offered = json!({
        "capabilities": capabilities(),
        "serverInfo": { "name": "msccl", "version": version },
    });
    connection.initialize_finish(id, offered).map_err(broken)?;
    let (events, incoming) = unbounded();
    let mut server = Server::new(connection, host, Worker::new(events), &params);
    server.ask_for_settings();
    server.run(&incoming)
}

/// What is known of one open text.
#[derive(Default)]
struct Known {
    /// The run that counts, and how to cancel it.
    run: u64,
    cancellation: Cancellation,
    /// What that run has found out so far; about the newest text.
    judgement: Option<Box<Judgement>>,
    /// Whether that run has ended.
    has_ended: bool,
    /// What the editor shows.
    published: Vec<Diagnostic>,
    /// For how many ranks lenses chose to judge.
    chosen: HashMap<String, u32>,
}

/// The state of a conversation.
struct Server<'a> {
    connection: &'a Connection,
    host: Arc<dyn Host>,
    worker: Worker,
    editor: Editor,
    workspace: Workspace,
    settings: Settings,
    known: HashMap<Arc<str>, Known>,
    /// Requests that wait for a judgement or a picture.
    waiting: Vec<Waiting>,
    /// Numbers of runs, pictures and our own requests.
    last_number: u64,
}

impl<'a> Server<'a> {
    fn new(
        connection: &'a Connection,
        host: Arc<dyn Host>,
        worker: Worker,
        params: &InitializeParams,
    ) -> Self {
        let mut workspace = Workspace::new(Arc::clone(&host));
        let folders = params.workspace_folders.iter().flatten();
        workspace.folders.extend(folders.filter_map(|folder| uri::path_of(&folder.uri)));
        #[expect(deprecated, reason = "older editors name their folder so")]
        if workspace.folders.is_empty() {
            workspace.folders.extend(params.root_uri.as_ref().and_then(uri::path_of));
        }
        let settings = params.initialization_options.clone().map(settings_in).unwrap_or_default();
        Self {
            connection,
            host,
            worker,
            editor: Editor::of(&params.capabilities),
            workspace,
            settings,
            known: HashMap::new(),
            waiting: Vec::new(),
            last_number: 0,
        }
    }

    fn run(&mut self, events: &Receiver<Event>) -> Result<(), ServeError> {
        loop {
            select! {
                recv(self.connection.receiver) -> message => match message {
                    // The editor has ended without a word.
                    Err(_) => return Ok(()),
                    Ok(Message::Request(request)) => {
                        let is_end = self.connection.handle_shutdown(&request);
                        if is_end.map_err(|error| ServeError(error.to_string()))? {
                            return Ok(());
                        }
                        self.request(request);
                    }
                    // The editor does not wait for an answer to its goodbye.
                    Ok(Message::Notification(it)) if it.method == Exit::METHOD => return Ok(()),
                    Ok(Message::Notification(notification)) => self.notified(notification),
                    Ok(Message::Response(response)) => self.responded(response),
                },
                recv(events) -> event => {
                    if let Ok(event) = event {
                        self.event(event);
                    }
                }
            }
        }
    }

    // --- Sending ---------------------------------------------------------------------------------

    fn send(&self, message: impl Into<Message>) {
        // If the editor has gone, the next receive says so.
        let _ = self.connection.sender.send(message.into());
    }

    fn notify(&self, method: &str, params: Value) {
        self.send(Notification { method: method.to_owned(), params });
    }

    fn ask(&mut self, method: &str, params: Value) {
        let id = RequestId::from(format!("msccl-{}-{method}", self.next_number()));
        self.send(Request { id, method: method.to_owned(), params });
    }

    fn refuse(&self, id: RequestId, code: ErrorCode, message: String) {
        self.send(Response::new_err(id, code as i32, message));
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    // --- Notifications ---------------------------------------------------------------------------

    fn notified(&mut self, notification: Notification) {
        let Notification { method, params } = notification;
        match method.as_str() {
            DidOpenTextDocument::METHOD => {
                if let Some(params) = read(params) {
                    self.opened(params);
                }
            }
            DidChangeTextDocument::METHOD => {
                if let Some(params) = read(params) {
                    self.changed(params);
                }
            }
            DidCloseTextDocument::METHOD => {
                if let Some(params) = read(params) {
                    self.closed(params);
                }
            }
            DidSaveTextDocument::METHOD | DidChangeWatchedFiles::METHOD => {
                self.workspace.forget_files();
                self.judge_all();
            }
            DidChangeConfiguration::METHOD => {
                if let Some(DidChangeConfigurationParams { settings }) = read(params) {
                    self.configure(settings);
                    self.ask_for_settings();
                }
            }
            Cancel::METHOD => {
                if let Some(CancelParams { id }) = read(params) {
                    self.cancel(match id {
                        NumberOrString::Number(number) => number.into(),
                        NumberOrString::String(text) => text.into(),
                    });
                }
            }
            _ => {}
        }
    }

    fn opened(&mut self, params: DidOpenTextDocumentParams) {
        let opened = params.text_document;
        let name = self.workspace.name(&opened.uri);
        self.workspace.uris.insert(Arc::clone(&name), opened.uri);
        self.workspace.set(Document::new(Arc::clone(&name), opened.version, opened.text));
        self.judge_with_importers(&name);
    }

    fn changed(&mut self, params: DidChangeTextDocumentParams) {
        let DidChangeTextDocumentParams { text_document, content_changes } = params;
        let Some(document) = self.workspace.document(&text_document.uri) else { return };
        let mut document = document.clone();
        document.change(text_document.version, content_changes);
        let name = Arc::clone(&document.name);
        self.workspace.set(document);
        self.judge_with_importers(&name);
    }

    fn closed(&mut self, params: DidCloseTextDocumentParams) {
        let uri = params.text_document.uri;
        let name = self.workspace.name(&uri);
        if let Some(known) = self.known.remove(&name) {
            known.cancellation.cancel();
        }
        self.workspace.close(&name);
        let params = PublishDiagnosticsParams { uri, diagnostics: Vec::new(), version: None };
        self.notify(PublishDiagnostics::METHOD, json!(params));
        self.answer_changed(&name);
        for importer in self.importers(&name) {
            self.judge(&importer);
        }
    }

    // --- Settings --------------------------------------------------------------------------------

    fn ask_for_settings(&mut self) {
        if self.editor.answers_configuration {
            let item = ConfigurationItem { scope_uri: None, section: Some("msccl".to_owned()) };
            let params = ConfigurationParams { items: vec![item] };
            self.ask(WorkspaceConfiguration::METHOD, json!(params));
        }
    }

    /// The only answer that matters is that about settings.
    fn responded(&mut self, response: Response) {
        let Response { id, response_result } = response;
        let request = id.to_string();
        if request.contains(WorkspaceConfiguration::METHOD)
            && let Ok(Value::Array(mut items)) = response_result
            && let Some(item) = items.pop()
        {
            self.configure(item);
        }
    }

    fn configure(&mut self, value: Value) {
        if value.is_null() {
            return;
        }
        let settings = settings_in(value);
        if settings != self.settings {
            self.settings = settings;
            self.judge_all();
        }
    }

    // --- Judgements ------------------------------------------------------------------------------

    fn judge_all(&mut self) {
        let names: Vec<_> = self.workspace.documents().map(|it| Arc::clone(&it.name)).collect();
        names.iter().for_each(|name| self.judge(name));
    }

    /// Judges a text, and those that import it.
    fn judge_with_importers(&mut self, name: &Arc<str>) {
        self.judge(name);
        for importer in self.importers(name) {
            self.judge(&importer);
        }
    }

    /// The open texts that import a file, directly or not.
    fn importers(&self, name: &str) -> Vec<Arc<str>> {
        let others = self.workspace.documents().filter(|it| &*it.name != name);
        let others = others.filter(|it| self.reaches(&it.name, name, &mut Vec::new()));
        others.map(|it| Arc::clone(&it.name)).collect()
    }

    fn reaches(&self, from: &str, name: &str, seen: &mut Vec<String>) -> bool {
        if seen.iter().any(|it| it == from) {
            return false;
        }
        seen.push(from.to_owned());
        let Some(unit) = self.workspace.unit(from) else { return false };
        let imports = unit.imports.iter().flatten();
        imports.into_iter().any(|it| it == name || self.reaches(it, name, seen))
    }

    /// Cancels the run of a text and starts another.
    fn judge(&mut self, name: &Arc<str>) {
        let number = self.next_number();
        let open = self.workspace.open_texts();
        let Some(text) = open.get(name).cloned() else { return };
        let known = self.known.entry(Arc::clone(name)).or_default();
        known.cancellation.cancel();
        known.cancellation = Cancellation::default();
        known.run = number;
        known.judgement = None;
        known.has_ended = false;
        let question = Question {
            name: Arc::clone(name),
            text,
            open: Arc::new(open),
            settings: self.settings.clone(),
            chosen: known.chosen.clone(),
            host: Arc::clone(&self.host),
        };
        let run = RunId { name: Arc::clone(name), number };
        self.worker.judge(run, question, known.cancellation.clone());
        self.answer_changed(name);
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Judged { run, judgement } => self.judged(&run, judgement),
            Event::Drawn { number, picture } => self.drawn(number, picture),
        }
    }

    fn judged(&mut self, run: &RunId, judgement: Result<Box<Judgement>, String>) {
        let RunId { name, number } = run;
        let is_current = self.known.get(name).is_some_and(|known| known.run == *number);
        if !is_current {
            return;
        }
        let (diagnostics, judgement) = match judgement {
            Ok(found) => (diagnostics::of_judgement(&found, &self.workspace), Some(found)),
            Err(defect) => (vec![of_defect(defect)], None),
        };
        self.publish(name, &diagnostics);
        let is_final = judgement.as_ref().is_none_or(|it| it.stage == Stage::Final);
        if let Some(known) = self.known.get_mut(name) {
            known.published = diagnostics;
            known.judgement = judgement;
            known.has_ended = is_final;
        }
        if is_final {
            self.answer_judged(name);
            if self.editor.refreshes_inlay_hints && self.settings.inlay_hints {
                self.ask(InlayHintRefreshRequest::METHOD, Value::Null);
            }
        }
    }

    fn publish(&self, name: &str, diagnostics: &[Diagnostic]) {
        let Some(uri) = self.workspace.uris.get(name) else { return };
        let version = self.workspace.document(uri).map(|document| document.version);
        let (uri, diagnostics) = (uri.clone(), diagnostics.to_vec());
        let params = PublishDiagnosticsParams { uri, diagnostics, version };
        self.notify(PublishDiagnostics::METHOD, json!(params));
    }
}

/// Something that must not happen, shown where it did.
fn of_defect(message: String) -> Diagnostic {
    Diagnostic {
        range: Range::default(),
        severity: Some(DiagnosticSeverity::ERROR),
        source: Some("msccl".to_owned()),
        message: format!("{message}; please report this program"),
        ..Diagnostic::default()
    }
}

/// Parameters; those that make no sense are passed over, as the protocol has it for notifications.
fn read<T: DeserializeOwned>(params: Value) -> Option<T> {
    serde_json::from_value(params).ok()
}

/// The settings in an object, which may lie in a section `msccl`. What makes no sense counts as not
/// set.
fn settings_in(value: Value) -> Settings {
    let section = value.get("msccl").cloned().unwrap_or(value);
    serde_json::from_value(section).unwrap_or_default()
}
