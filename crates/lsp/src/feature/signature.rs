//! Signatures: what a function or a collective takes, and which argument is being written.

use lsp_types::{
    ParameterInformation, ParameterLabel, Position, SignatureHelp, SignatureInformation,
};
use msccl_compiler::evaluate::{builtins, comment_before};

use super::vocabulary;
use crate::names::{DefinitionKind, Meaning, Use};
use crate::token::{Token, TokenKind, tokens};
use crate::workspace::{DefinitionPlace, Unit, Workspace};

/// What can be called or implemented.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// `name(a, b)`.
    pub label: String,
    /// Its parameters or labels.
    pub params: Vec<String>,
    /// What it does; may be empty.
    pub doc: String,
}

/// The signature of what a name means in a file.
pub fn of_name(
    workspace: &Workspace,
    unit: &Unit,
    name: &str,
    meaning: Meaning,
) -> Option<Signature> {
    if meaning == Meaning::Function
        && let Some(builtin) = builtins().find(|it| it.name == name)
    {
        let params: Vec<_> = builtin.params.iter().map(|it| (*it).to_owned()).collect();
        let doc = vocabulary::builtin(name).unwrap_or_default().to_owned();
        return Some(signature(name, params, doc));
    }
    let used = Use { name: name.to_owned(), bytes: 0..0, meaning };
    let found = workspace.definitions(unit, &used);
    found.first().and_then(|place| of_definition(workspace, place)).or_else(|| standard(name))
}

/// That of a standard collective.
fn standard(name: &str) -> Option<Signature> {
    let entry = vocabulary::COLLECTIVES.iter().find(|it| it.word == name)?;
    let has_root = matches!(name, "broadcast" | "reduce" | "gather" | "scatter");
    let labels = if has_root { vec!["root 0", "chunks 1"] } else { vec!["chunks 1"] };
    let labels = labels.into_iter().map(str::to_owned).collect();
    Some(signature(name, labels, entry.meaning.to_owned()))
}

fn signature(name: &str, params: Vec<String>, doc: String) -> Signature {
    Signature { label: format!("{name}({})", params.join(", ")), params, doc }
}

/// The signature of a definition, with the comment above it.
pub fn of_definition(workspace: &Workspace, place: &DefinitionPlace) -> Option<Signature> {
    let unit = workspace.unit(&place.file)?;
    let definition = unit.names.definitions.get(place.number)?;
    let doc = comment_before(&unit.text[..definition.whole.start]);
    let params = match &definition.kind {
        DefinitionKind::Function { params } => params.clone(),
        DefinitionKind::Collective { labels } => labels.clone(),
        DefinitionKind::Algorithm
        | DefinitionKind::Parameter
        | DefinitionKind::Label { .. }
        | DefinitionKind::Let
        | DefinitionKind::Binder
        | DefinitionKind::Scratch => return None,
    };
    Some(signature(&definition.name, params, doc))
}

/// The call around a place.
struct OpenCall<'t> {
    name: &'t str,
    /// Arguments that are complete.
    argument: usize,
    meaning: Meaning,
}

/// Help for the call around a position.
pub fn help(workspace: &Workspace, unit: &Unit, position: Position) -> Option<SignatureHelp> {
    let at = unit.lines.offset(&unit.text, position);
    let text = &unit.text[..at];
    let call = open_call(text, &tokens(text))?;
    let Signature { label, params, doc } = of_name(workspace, unit, call.name, call.meaning)?;
    let parameters = params.into_iter().map(|param| ParameterInformation {
        label: ParameterLabel::Simple(param),
        documentation: None,
    });
    let information = SignatureInformation {
        label,
        documentation: Some(lsp_types::Documentation::String(doc)),
        parameters: Some(parameters.collect()),
        active_parameter: Some(call.argument as u32),
    };
    Some(SignatureHelp {
        signatures: vec![information],
        active_signature: Some(0),
        active_parameter: Some(call.argument as u32),
    })
}

/// The innermost call that is open at the end of `text`.
fn open_call<'t>(text: &'t str, tokens: &[Token]) -> Option<OpenCall<'t>> {
    let code: Vec<_> = tokens.iter().filter(|it| it.kind != TokenKind::Comment).collect();
    let word = |at: usize| code.get(at).map(|token| token.of(text));
    let (mut depth, mut argument) = (0_usize, 0);
    for at in (0..code.len()).rev() {
        match code[at].of(text) {
            ")" | "]" => depth += 1,
            "(" | "[" if depth > 0 => depth -= 1,
            "," if depth == 0 => argument += 1,
            "(" if at > 0 && code[at - 1].kind == TokenKind::Word => {
                let name = word(at - 1)?;
                let before = (at > 1).then(|| word(at - 2)).flatten();
                return match before {
                    Some("fn" | "algorithm" | "collective") => None,
                    Some("implements") => {
                        Some(OpenCall { name, argument, meaning: Meaning::Collective })
                    }
                    _ => Some(OpenCall { name, argument, meaning: Meaning::Function }),
                };
            }
            // An argument in parentheses or in brackets of its own.
            "(" | "[" => argument = 0,
            "{" | "}" => return None,
            _ => {}
        }
    }
    None
}
