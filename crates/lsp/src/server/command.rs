//! Commands: what lenses offer. Their answers wait for a judgement or a picture.

use std::sync::Arc;

use lsp_server::{ErrorCode, RequestId, Response};
use lsp_types::notification::{Notification as _, ShowMessage};
use lsp_types::request::{Request as _, ShowDocument};
use lsp_types::{
    ExecuteCommandParams, MessageType, ShowDocumentParams, ShowMessageParams,
    TextDocumentIdentifier, Uri,
};
use serde_json::{Value, json};

use super::Server;
use crate::feature::lens;
use crate::host::{Picture, TimelineRequest};
use crate::judgement::{Judged, Verdict};
use crate::launch::{RequestedLaunch, launches};
use crate::uri;

/// The request of our own that waits for all verdicts on a text.
pub(super) const VERDICTS: &str = "msccl/verdicts";

/// A request that waits.
pub(super) struct Waiting {
    id: RequestId,
    what: Awaited,
}

/// What it waits for.
enum Awaited {
    /// The judgement of an algorithm.
    Judgement { name: Arc<str>, run: u64, algorithm: String },
    /// All verdicts on a text.
    Verdicts { name: Arc<str>, run: u64 },
    /// The picture of that number.
    Picture { number: u64 },
}

impl Server<'_> {
    pub(super) fn execute(&mut self, id: RequestId, params: Value) {
        let params: ExecuteCommandParams = match serde_json::from_value(params) {
            Ok(params) => params,
            Err(error) => return self.refuse(id, ErrorCode::InvalidParams, error.to_string()),
        };
        let ExecuteCommandParams { command, arguments, .. } = params;
        let done = match command.as_str() {
            lens::PROVE => self.prove(&id, &arguments),
            lens::TIMELINE => self.draw(&id, &arguments),
            _ => Err(format!("the server does not know the command {command}")),
        };
        if let Err(message) = done {
            self.refuse(id, ErrorCode::InvalidParams, message);
        }
    }

    /// The open text and the algorithm that arguments begin with.
    fn subject(&self, arguments: &[Value]) -> Result<(Arc<str>, String), String> {
        let expected = || "expected the identifier of an open text and an algorithm".to_owned();
        let text = |at: usize| arguments.get(at).and_then(Value::as_str).ok_or_else(expected);
        let uri: Uri = text(0)?.parse().map_err(|_| expected())?;
        let document = self.workspace.document(&uri).ok_or_else(expected)?;
        Ok((Arc::clone(&document.name), text(1)?.to_owned()))
    }

    /// Judges an algorithm for so many ranks from now on.
    fn prove(&mut self, id: &RequestId, arguments: &[Value]) -> Result<(), String> {
        let (name, algorithm) = self.subject(arguments)?;
        let ranks = arguments.get(2).and_then(Value::as_u64).and_then(|it| u32::try_from(it).ok());
        let ranks = ranks.filter(|ranks| *ranks > 0);
        let ranks = ranks.ok_or("expected a number of ranks, 1 or more, as third argument")?;
        let known = self.known.entry(Arc::clone(&name)).or_default();
        known.chosen.insert(algorithm.clone(), ranks);
        self.judge(&name);
        let run = self.known.get(&name).map_or(0, |known| known.run);
        let what = Awaited::Judgement { name, run, algorithm };
        self.waiting.push(Waiting { id: id.clone(), what });
        Ok(())
    }

    fn draw(&mut self, id: &RequestId, arguments: &[Value]) -> Result<(), String> {
        let (name, algorithm) = self.subject(arguments)?;
        let unit = self.workspace.unit(&name).ok_or("the text is not open any more")?;
        let chosen = self.known.get(&name).and_then(|known| known.chosen.get(&algorithm)).copied();
        let tree = unit.tree.as_ref().ok_or("the text does not parse")?;
        let (all, _) = launches(&unit.text, tree, &self.settings, |_| chosen);
        let launch = all.into_iter().find(|it| it.algorithm == algorithm);
        let launch = launch.ok_or_else(|| format!("there is no algorithm `{algorithm}`"))?;
        let RequestedLaunch { algorithm, ranks, per_node, topology, target: _, params } = launch;
        let text = unit.text.to_string();
        let name = name.to_string();
        let request = TimelineRequest { name, text, algorithm, ranks, per_node, topology, params };
        let number = self.next_number();
        self.worker.draw(number, Arc::clone(&self.host), request);
        self.waiting.push(Waiting { id: id.clone(), what: Awaited::Picture { number } });
        Ok(())
    }

    /// Answers with all verdicts on a text, once they are there.
    pub(super) fn verdicts(&mut self, id: RequestId, params: Value) {
        let params: TextDocumentIdentifier = match serde_json::from_value(params) {
            Ok(params) => params,
            Err(error) => return self.refuse(id, ErrorCode::InvalidParams, error.to_string()),
        };
        let name = self.workspace.name(&params.uri);
        let Some(known) = self.known.get(&name) else {
            return self.refuse(id, ErrorCode::InvalidParams, "the text is not open".to_owned());
        };
        let what = Awaited::Verdicts { name: Arc::clone(&name), run: known.run };
        let has_ended = known.has_ended;
        self.waiting.push(Waiting { id, what });
        if has_ended {
            self.answer_judged(&name);
        }
    }

    /// The requests that wait and are no longer to do so.
    fn take(&mut self, is_ready: impl Fn(&Awaited) -> bool) -> Vec<Waiting> {
        let all = std::mem::take(&mut self.waiting);
        let (ready, rest) = all.into_iter().partition(|waiting| is_ready(&waiting.what));
        self.waiting = rest;
        ready
    }

    /// A new run of a text has started, or it was closed: what waited for another never comes.
    pub(super) fn answer_changed(&mut self, name: &Arc<str>) {
        let current = self.known.get(name).map(|known| known.run);
        let is_obsolete = |what: &Awaited| match what {
            Awaited::Judgement { name: of, run, .. } | Awaited::Verdicts { name: of, run } => {
                of == name && Some(*run) != current
            }
            Awaited::Picture { .. } => false,
        };
        for Waiting { id, what: _ } in self.take(is_obsolete) {
            let message = "the text has changed since; ask again".to_owned();
            self.refuse(id, ErrorCode::ContentModified, message);
        }
    }

    /// The final judgement of a text is there.
    pub(super) fn answer_judged(&mut self, name: &Arc<str>) {
        let is_ready = |what: &Awaited| match what {
            Awaited::Judgement { name: of, .. } | Awaited::Verdicts { name: of, .. } => of == name,
            Awaited::Picture { .. } => false,
        };
        for Waiting { id, what } in self.take(is_ready) {
            let Awaited::Judgement { algorithm, .. } = what else {
                self.send(Response::new_ok(id, self.all_verdicts(name)));
                continue;
            };
            let (is_proved, text) = self.verdict(name, &algorithm);
            let typ = if is_proved { MessageType::INFO } else { MessageType::WARNING };
            let shown = ShowMessageParams { typ, message: text.clone() };
            self.notify(ShowMessage::METHOD, json!(shown));
            self.send(Response::new_ok(id, json!({ "proved": is_proved, "text": text })));
        }
    }

    /// What became of an algorithm, in one line.
    fn verdict(&self, name: &str, algorithm: &str) -> (bool, String) {
        let judgement = self.known.get(name).and_then(|known| known.judgement.as_ref());
        let Some(judgement) = judgement else {
            return (false, format!("{algorithm}: nothing could be said"));
        };
        let judged = judgement.algorithms.iter().find(|it| it.launch.algorithm == algorithm);
        match judged {
            None => (false, format!("{algorithm}: the text does not parse")),
            Some(Judged { launch, verdict, .. }) => match verdict {
                Verdict::Open => (false, format!("{algorithm} ({}): not proved", launch.words())),
                Verdict::Proved(proof) => (true, format!("{algorithm}: {}", proof.in_short("N"))),
                Verdict::Refused { kind, message } => {
                    let words = launch.words();
                    (false, format!("{algorithm} ({words}): refused: {kind}: {message}"))
                }
            },
        }
    }

    /// What became of all algorithms and launches.
    fn all_verdicts(&self, name: &str) -> Value {
        let judgement = self.known.get(name).and_then(|known| known.judgement.as_ref());
        let algorithms = judgement.map_or(&[][..], |judgement| &judgement.algorithms);
        let verdict = |judged: &Judged| {
            let (state, text) = match &judged.verdict {
                Verdict::Open => ("open", String::new()),
                Verdict::Proved(proof) => ("proved", proof.in_short("N")),
                Verdict::Refused { kind, message } => ("refused", format!("{kind}: {message}")),
            };
            let Judged { launch, .. } = judged;
            json!({
                "algorithm": launch.algorithm, "launch": launch.words(),
                "state": state, "text": text,
            })
        };
        algorithms.iter().map(verdict).collect()
    }

    /// A picture is there.
    pub(super) fn drawn(&mut self, number: u64, picture: Result<Picture, String>) {
        let is_ready = |what: &Awaited| match what {
            Awaited::Picture { number: of } => *of == number,
            Awaited::Judgement { .. } | Awaited::Verdicts { .. } => false,
        };
        for Waiting { id, what: _ } in self.take(is_ready) {
            match &picture {
                Ok(Picture { svg, file }) => {
                    let uri = uri::of_path(file);
                    let answer = json!({ "uri": uri, "svg": svg });
                    self.send(Response::new_ok(id, answer));
                    self.show(uri, file.display().to_string());
                }
                Err(message) => self.refuse(id, ErrorCode::RequestFailed, message.clone()),
            }
        }
    }

    fn show(&mut self, uri: Option<Uri>, path: String) {
        match uri.filter(|_| self.editor.shows_documents) {
            Some(uri) => {
                let external = Some(true);
                let params =
                    ShowDocumentParams { uri, external, take_focus: Some(true), selection: None };
                self.ask(ShowDocument::METHOD, json!(params));
            }
            None => {
                let message = format!("the timeline is in {path}");
                let params = ShowMessageParams { typ: MessageType::INFO, message };
                self.notify(ShowMessage::METHOD, json!(params));
            }
        }
    }

    /// The editor no longer wants an answer.
    pub(super) fn cancel(&mut self, cancelled: RequestId) {
        let position = self.waiting.iter().position(|waiting| waiting.id == cancelled);
        if let Some(position) = position {
            let Waiting { id, what: _ } = self.waiting.remove(position);
            self.refuse(id, ErrorCode::RequestCanceled, "cancelled".to_owned());
        }
    }
}
