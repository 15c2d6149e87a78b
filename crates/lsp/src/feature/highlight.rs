//! Semantic tokens: colours by meaning, where the text parses, and by form elsewhere.

use std::collections::HashMap;

use lsp_types::{SemanticToken, SemanticTokenModifier, SemanticTokenType, SemanticTokensLegend};
use msccl_compiler::evaluate::{builtins, standard_module_of};

use crate::names::{DefinitionKind, Meaning};
use crate::token::{KEYWORDS, Token, TokenKind, tokens};
use crate::workspace::{Unit, Workspace};

/// What a token is, in the order of the legend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Comment,
    Text,
    Number,
    Keyword,
    Operator,
    Function,
    Algorithm,
    Collective,
    Parameter,
    Variable,
    Label,
}

/// Bits of the modifiers, in the order of the legend.
const DECLARATION: u32 = 1;
const BUILT_IN: u32 = 2;

/// The kinds and modifiers of tokens.
pub fn legend() -> SemanticTokensLegend {
    SemanticTokensLegend {
        token_types: vec![
            SemanticTokenType::COMMENT,
            SemanticTokenType::STRING,
            SemanticTokenType::NUMBER,
            SemanticTokenType::KEYWORD,
            SemanticTokenType::OPERATOR,
            SemanticTokenType::FUNCTION,
            SemanticTokenType::CLASS,
            SemanticTokenType::INTERFACE,
            SemanticTokenType::PARAMETER,
            SemanticTokenType::VARIABLE,
            SemanticTokenType::PROPERTY,
        ],
        token_modifiers: vec![
            SemanticTokenModifier::DECLARATION,
            SemanticTokenModifier::DEFAULT_LIBRARY,
        ],
    }
}

/// A class with modifiers.
#[derive(Clone, Copy)]
struct Coloured {
    class: Class,
    modifiers: u32,
}

/// The tokens of a file, as the protocol counts them: each from the one before.
pub fn highlight(workspace: &Workspace, unit: &Unit) -> Vec<SemanticToken> {
    let meanings = meanings(workspace, unit);
    let text = &*unit.text;
    let mut found = Vec::new();
    let mut before = unit.lines.position(text, 0);
    for token in tokens(text) {
        let known = meanings.get(&token.bytes.start).copied();
        let Some(Coloured { class, modifiers }) = known.or_else(|| by_form(&token, text)) else {
            continue;
        };
        let start = unit.lines.position(text, token.bytes.start);
        let same_line = start.line == before.line;
        found.push(SemanticToken {
            delta_line: start.line - before.line,
            delta_start: if same_line {
                start.character - before.character
            } else {
                start.character
            },
            length: token.of(text).encode_utf16().count() as u32,
            token_type: class as u32,
            token_modifiers_bitset: modifiers,
        });
        before = start;
    }
    found
}

fn by_form(token: &Token, text: &str) -> Option<Coloured> {
    let class = match token.kind {
        TokenKind::Comment => Class::Comment,
        TokenKind::Text => Class::Text,
        TokenKind::Number => Class::Number,
        TokenKind::Word if KEYWORDS.contains(&token.of(text)) => Class::Keyword,
        TokenKind::Word => return None,
        TokenKind::Symbol if "(){}[],:".contains(token.of(text)) => return None,
        TokenKind::Symbol => Class::Operator,
    };
    Some(Coloured { class, modifiers: 0 })
}

/// The names of the file by where they start.
fn meanings(workspace: &Workspace, unit: &Unit) -> HashMap<usize, Coloured> {
    let names = &unit.names;
    let mut found = HashMap::new();
    for definition in &names.definitions {
        let coloured = Coloured { class: class(&definition.kind), modifiers: DECLARATION };
        found.insert(definition.bytes.start, coloured);
    }
    for used in &names.uses {
        let plain = |class| Coloured { class, modifiers: 0 };
        let coloured = match &used.meaning {
            Meaning::Local(number) => plain(class(&names.definitions[*number].kind)),
            Meaning::Function => {
                let own = builtins().any(|it| it.name == used.name);
                let found = workspace.definitions(unit, used);
                let library = found.first().and_then(|it| standard_module_of(&it.file)).is_some();
                let modifiers = if own || library { BUILT_IN } else { 0 };
                Coloured { class: Class::Function, modifiers }
            }
            Meaning::Collective => plain(Class::Collective),
            Meaning::Label { collective: _ } => plain(Class::Label),
            Meaning::Buffer => Coloured { class: Class::Variable, modifiers: BUILT_IN },
            Meaning::Unknown => plain(Class::Variable),
        };
        found.insert(used.bytes.start, coloured);
    }
    found
}

fn class(kind: &DefinitionKind) -> Class {
    match kind {
        DefinitionKind::Function { params: _ } => Class::Function,
        DefinitionKind::Collective { labels: _ } => Class::Collective,
        DefinitionKind::Algorithm => Class::Algorithm,
        DefinitionKind::Parameter | DefinitionKind::Label { collective: _ } => Class::Parameter,
        DefinitionKind::Let | DefinitionKind::Binder | DefinitionKind::Scratch => Class::Variable,
    }
}
