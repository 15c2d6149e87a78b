//! Answers that need nothing but what is known now.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use lsp_server::{ErrorCode, Request, RequestId, Response};
use lsp_types::request::{
    CodeActionRequest, CodeLensRequest, Completion, DocumentHighlightRequest,
    DocumentSymbolRequest, ExecuteCommand, FoldingRangeRequest, Formatting, GotoDefinition,
    HoverRequest, InlayHintRequest, PrepareRenameRequest, RangeFormatting, References, Rename,
    Request as _, SemanticTokensFullRequest, SignatureHelpRequest,
};
use lsp_types::{
    CodeActionParams, CodeLensParams, CompletionParams, DocumentFormattingParams,
    DocumentRangeFormattingParams, DocumentSymbolParams, FoldingRangeParams, InlayHintParams,
    Range, ReferenceParams, RenameParams, SemanticTokens, SemanticTokensParams,
    TextDocumentPositionParams, Uri,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::Server;
use super::command::VERDICTS;
use crate::feature::navigation::Declarations;
use crate::feature::{
    action, completion, highlight, hover, layout, lens, navigation, outline, rename, signature,
};
use crate::workspace::Unit;

/// Why there is no answer.
struct Refused {
    code: ErrorCode,
    message: String,
}

type Answer = Result<Value, Refused>;

impl Server<'_> {
    pub(super) fn request(&mut self, request: Request) {
        let Request { id, method, params } = request;
        if method == ExecuteCommand::METHOD {
            return self.execute(id, params);
        }
        if method == VERDICTS {
            return self.verdicts(id, params);
        }
        let answer = catch_unwind(AssertUnwindSafe(|| self.answer(&method, params)));
        self.answered(
            id,
            answer.unwrap_or_else(|_| {
                let message = format!("the server has a defect in {method}; please report it");
                Err(Refused { code: ErrorCode::InternalError, message })
            }),
        );
    }

    fn answered(&self, id: RequestId, answer: Answer) {
        match answer {
            Ok(value) => self.send(Response::new_ok(id, value)),
            Err(Refused { code, message }) => self.refuse(id, code, message),
        }
    }

    fn answer(&self, method: &str, params: Value) -> Answer {
        match method {
            HoverRequest::METHOD => self.at(params, |unit, at| {
                let judgement = self.known.get(&unit.name).and_then(|it| it.judgement.as_deref());
                json!(hover::hover(&self.workspace, unit, judgement, at))
            }),
            Completion::METHOD => {
                let params: CompletionParams = read(params)?;
                let place = params.text_document_position;
                self.in_unit(&place.text_document.uri, |unit| {
                    json!(completion::complete(&self.workspace, unit, place.position))
                })
            }
            SignatureHelpRequest::METHOD => {
                self.at(params, |unit, at| json!(signature::help(&self.workspace, unit, at)))
            }
            GotoDefinition::METHOD => self
                .at(params, |unit, at| json!(navigation::definitions(&self.workspace, unit, at))),
            References::METHOD => self.references(read(params)?),
            DocumentHighlightRequest::METHOD => {
                self.at(params, |unit, at| json!(navigation::highlights(&self.workspace, unit, at)))
            }
            PrepareRenameRequest::METHOD => self.prepare_rename(read(params)?),
            Rename::METHOD => self.rename(read(params)?),
            DocumentSymbolRequest::METHOD => {
                let DocumentSymbolParams { text_document, .. } = read(params)?;
                self.in_unit(&text_document.uri, |unit| json!(outline::symbols(unit)))
            }
            FoldingRangeRequest::METHOD => {
                let FoldingRangeParams { text_document, .. } = read(params)?;
                self.in_unit(&text_document.uri, |unit| json!(outline::folds(unit)))
            }
            SemanticTokensFullRequest::METHOD => {
                let SemanticTokensParams { text_document, .. } = read(params)?;
                self.in_unit(&text_document.uri, |unit| {
                    let data = highlight::highlight(&self.workspace, unit);
                    json!(SemanticTokens { result_id: None, data })
                })
            }
            Formatting::METHOD => {
                let DocumentFormattingParams { text_document, .. } = read(params)?;
                let document = self.workspace.document(&text_document.uri);
                Ok(json!(document.and_then(layout::all)))
            }
            RangeFormatting::METHOD => self.format_range(&read(params)?),
            CodeActionRequest::METHOD => self.actions(&read(params)?),
            CodeLensRequest::METHOD => {
                let CodeLensParams { text_document, .. } = read(params)?;
                let uri = text_document.uri;
                let of = |unit: &Unit| json!(lens::lenses(unit, uri.as_str(), &self.settings));
                self.in_unit(&uri, of)
            }
            InlayHintRequest::METHOD => self.inlay_hints(&read(params)?),
            _ => Err(Refused {
                code: ErrorCode::MethodNotFound,
                message: format!("the server does not know {method}"),
            }),
        }
    }

    fn unit(&self, uri: &Uri) -> Option<Arc<Unit>> {
        self.workspace.unit(&self.workspace.name(uri))
    }

    /// An answer about a text; `null` if it is not known.
    fn in_unit(&self, uri: &Uri, answer: impl FnOnce(&Unit) -> Value) -> Answer {
        Ok(self.unit(uri).map_or(Value::Null, |unit| answer(&unit)))
    }

    /// An answer about a position.
    fn at(
        &self,
        params: Value,
        answer: impl FnOnce(&Unit, lsp_types::Position) -> Value,
    ) -> Answer {
        let TextDocumentPositionParams { text_document, position } = read(params)?;
        self.in_unit(&text_document.uri, |unit| answer(unit, position))
    }

    fn references(&self, params: ReferenceParams) -> Answer {
        let ReferenceParams { text_document_position: place, context, .. } = params;
        let declarations = if context.include_declaration {
            Declarations::Included
        } else {
            Declarations::LeftOut
        };
        self.in_unit(&place.text_document.uri, |unit| {
            json!(navigation::references(&self.workspace, unit, place.position, declarations))
        })
    }

    fn prepare_rename(&self, params: TextDocumentPositionParams) -> Answer {
        let TextDocumentPositionParams { text_document, position } = params;
        let Some(unit) = self.unit(&text_document.uri) else { return Ok(Value::Null) };
        let bytes = rename::renamed_at(&self.workspace, &unit, position).map_err(failed)?;
        Ok(json!(unit.range(bytes)))
    }

    fn rename(&self, params: RenameParams) -> Answer {
        let RenameParams { text_document_position: place, new_name, .. } = params;
        let Some(unit) = self.unit(&place.text_document.uri) else { return Ok(Value::Null) };
        let edit = rename::rename(&self.workspace, &unit, place.position, &new_name);
        Ok(json!(edit.map_err(failed)?))
    }

    fn format_range(&self, params: &DocumentRangeFormattingParams) -> Answer {
        let DocumentRangeFormattingParams { text_document, range, .. } = params;
        let Some(document) = self.workspace.document(&text_document.uri) else {
            return Ok(Value::Null);
        };
        // Edits are about lines as the compiler counts them, which `\r` alone does not end.
        let line = |position| {
            let text = &document.text[..document.offset(position)];
            text.bytes().filter(|byte| *byte == b'\n').count()
        };
        // A selection that ends at the start of a line does not hold that line.
        let end = line(range.end);
        let is_whole = range.end.character == 0 && range.end.line > range.start.line;
        let end = if is_whole { end.saturating_sub(1) } else { end };
        Ok(json!(layout::of_lines(document, line(range.start)..end)))
    }

    fn actions(&self, params: &CodeActionParams) -> Answer {
        let CodeActionParams { text_document, range, .. } = params;
        let Some(unit) = self.unit(&text_document.uri) else { return Ok(Value::Null) };
        let known = self.known.get(&unit.name);
        // Until the newest text is judged, what is shown is about another.
        let published = known.filter(|it| it.judgement.is_some()).map(|it| &it.published);
        let touched = published.into_iter().flatten().filter(|it| touch(&it.range, range));
        let touched: Vec<_> = touched.collect();
        Ok(json!(action::actions(&unit, &text_document.uri, &touched)))
    }

    fn inlay_hints(&self, params: &InlayHintParams) -> Answer {
        let InlayHintParams { text_document, range, .. } = params;
        let Some(unit) = self.unit(&text_document.uri) else { return Ok(Value::Null) };
        let judgement = self.known.get(&unit.name).and_then(|it| it.judgement.as_deref());
        let Some(judgement) = judgement.filter(|_| self.settings.inlay_hints) else {
            return Ok(json!([]));
        };
        let mut hints = lens::inlay_hints(&unit, judgement);
        hints.retain(|hint| touch(&Range { start: hint.position, end: hint.position }, range));
        Ok(json!(hints))
    }
}

fn failed(message: String) -> Refused {
    Refused { code: ErrorCode::RequestFailed, message }
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, Refused> {
    serde_json::from_value(params)
        .map_err(|error| Refused { code: ErrorCode::InvalidParams, message: error.to_string() })
}

/// Whether two ranges have a place in common, their ends included.
fn touch(one: &Range, other: &Range) -> bool {
    one.start <= other.end && other.start <= one.end
}
