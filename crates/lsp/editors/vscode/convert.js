// From the protocol's values to those of VS Code, and back.
'use strict';

const vscode = require('vscode');

const position = (it) => new vscode.Position(it.line, it.character);
const range = (it) => new vscode.Range(position(it.start), position(it.end));
const location = (it) => new vscode.Location(vscode.Uri.parse(it.uri), range(it.range));
const textEdit = (it) => new vscode.TextEdit(range(it.range), it.newText);

const plainPosition = (it) => ({ line: it.line, character: it.character });
const plainRange = (it) => ({ start: plainPosition(it.start), end: plainPosition(it.end) });

function markdown(value) {
  const text = new vscode.MarkdownString(value);
  text.supportHtml = false;
  return text;
}

// The protocol counts severities and kinds from 1, VS Code from 0.
function diagnostic(it) {
  const found = new vscode.Diagnostic(range(it.range), it.message, (it.severity ?? 1) - 1);
  found.source = it.source;
  found.code = it.code;
  found.relatedInformation = (it.relatedInformation ?? []).map(
    (one) => new vscode.DiagnosticRelatedInformation(location(one.location), one.message),
  );
  return found;
}

function workspaceEdit(it) {
  const edit = new vscode.WorkspaceEdit();
  for (const [uri, edits] of Object.entries(it.changes ?? {})) {
    edit.set(vscode.Uri.parse(uri), edits.map(textEdit));
  }
  return edit;
}

function completionItem(it) {
  const item = new vscode.CompletionItem(it.label, (it.kind ?? 1) - 1);
  item.detail = it.detail;
  item.sortText = it.sortText;
  if (it.documentation) item.documentation = it.documentation;
  if (it.insertText) {
    const isSnippet = it.insertTextFormat === 2;
    item.insertText = isSnippet ? new vscode.SnippetString(it.insertText) : it.insertText;
  }
  item.additionalTextEdits = it.additionalTextEdits?.map(textEdit);
  return item;
}

function symbol(it) {
  const { name, detail, kind } = it;
  const found = new vscode.DocumentSymbol(
    name, detail ?? '', kind - 1, range(it.range), range(it.selectionRange),
  );
  found.children = (it.children ?? []).map(symbol);
  return found;
}

function signatureHelp(it) {
  const help = new vscode.SignatureHelp();
  help.activeSignature = it.activeSignature ?? 0;
  help.activeParameter = it.activeParameter ?? 0;
  help.signatures = it.signatures.map((one) => {
    const signature = new vscode.SignatureInformation(one.label, one.documentation);
    const parameters = one.parameters ?? [];
    signature.parameters = parameters.map((each) => new vscode.ParameterInformation(each.label));
    return signature;
  });
  return help;
}

function codeAction(it) {
  const action = new vscode.CodeAction(it.title, vscode.CodeActionKind.QuickFix);
  action.diagnostics = it.diagnostics?.map(diagnostic);
  action.isPreferred = it.isPreferred;
  if (it.edit) action.edit = workspaceEdit(it.edit);
  return action;
}

function inlayHint(it) {
  const hint = new vscode.InlayHint(position(it.position), it.label, it.kind);
  hint.tooltip = it.tooltip;
  hint.paddingLeft = it.paddingLeft;
  return hint;
}

module.exports = {
  codeAction, completionItem, diagnostic, inlayHint, location, markdown, plainPosition, plainRange,
  range, signatureHelp, symbol, textEdit, workspaceEdit,
};
