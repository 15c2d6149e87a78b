// Drives the client for VS Code with a stand-in for the editor: `node drive.js FOLDER`.
'use strict';

const assert = require('assert');
const Module = require('module');
const path = require('path');

// --- The stand-in --------------------------------------------------------------------------------

const data = (names) => class {
  constructor(...values) {
    names.forEach((name, at) => { this[name] = values[at]; });
  }
};
const Position = data(['line', 'character']);
const Range = data(['start', 'end']);
const listeners = {};
const on = (name) => (listener) => {
  listeners[name] = listener;
  return { dispose() {} };
};
const providers = {};
const register = (name) => (_selector, provider) => {
  providers[name] = provider;
  return { dispose() {} };
};
const commands = {};
const shown = [];
const diagnostics = new Map();
const settings = { command: [process.env.MSCCL, 'lsp'], prove: true, lensRanks: [8] };
settings.get = (name) => settings[name];
const documents = [];

const vscode = {
  Position, Range,
  Location: data(['uri', 'range']),
  TextEdit: data(['range', 'newText']),
  Diagnostic: data(['range', 'message', 'severity']),
  DiagnosticRelatedInformation: data(['location', 'message']),
  MarkdownString: data(['value']),
  Hover: data(['contents', 'range']),
  CompletionItem: data(['label', 'kind']),
  SnippetString: data(['value']),
  DocumentSymbol: data(['name', 'detail', 'kind', 'range', 'selectionRange']),
  SignatureHelp: data([]),
  SignatureInformation: data(['label', 'documentation']),
  ParameterInformation: data(['label']),
  CodeAction: data(['title', 'kind']),
  CodeActionKind: { QuickFix: 'quickfix' },
  CodeLens: data(['range', 'command']),
  InlayHint: data(['position', 'label', 'kind']),
  FoldingRange: data(['start', 'end', 'kind']),
  FoldingRangeKind: { Comment: 1, Region: 3 },
  SemanticTokens: data(['data']),
  SemanticTokensLegend: data(['types', 'modifiers']),
  WorkspaceEdit: class {
    constructor() { this.edits = new Map(); }
    set(uri, edits) { this.edits.set(uri.toString(), edits); }
  },
  EventEmitter: class {
    constructor() { this.event = () => ({ dispose() {} }); this.fired = 0; }
    fire() { this.fired += 1; }
    dispose() {}
  },
  Uri: { parse: (text) => ({ toString: () => text }) },
  env: { openExternal: async () => true },
  window: {
    showErrorMessage: (text) => shown.push(text),
    showWarningMessage: (text) => shown.push(text),
    showInformationMessage: (text) => shown.push(text),
  },
  workspace: {
    textDocuments: documents,
    workspaceFolders: [{ uri: { toString: () => `file://${process.cwd()}` }, name: 'work' }],
    getConfiguration: () => settings,
    onDidOpenTextDocument: on('open'),
    onDidChangeTextDocument: on('change'),
    onDidCloseTextDocument: on('close'),
    onDidSaveTextDocument: on('save'),
    onDidChangeConfiguration: on('configuration'),
  },
  commands: {
    registerCommand: (name, run) => {
      commands[name] = run;
      return { dispose() {} };
    },
  },
  languages: {
    createDiagnosticCollection: () => ({
      set: (uri, found) => diagnostics.set(uri.toString(), found),
      clear: () => diagnostics.clear(),
      dispose() {},
    }),
    registerHoverProvider: register('hover'),
    registerCompletionItemProvider: register('completion'),
    registerSignatureHelpProvider: register('signature'),
    registerDefinitionProvider: register('definition'),
    registerReferenceProvider: register('references'),
    registerRenameProvider: register('rename'),
    registerDocumentSymbolProvider: register('symbols'),
    registerFoldingRangeProvider: register('folding'),
    registerDocumentFormattingEditProvider: register('format'),
    registerDocumentRangeFormattingEditProvider: register('formatRange'),
    registerCodeActionsProvider: register('actions'),
    registerCodeLensProvider: register('lenses'),
    registerInlayHintsProvider: register('hints'),
    registerDocumentSemanticTokensProvider: register('tokens'),
  },
};

const load = Module._load;
Module._load = (name, ...rest) => (name === 'vscode' ? vscode : load(name, ...rest));

// --- The drive -----------------------------------------------------------------------------------

const uri = `file://${process.cwd()}/main.msccl`;
const TEXT = [
  'import "other.msccl"',
  '',
  'algorithm a(ranks N = 4) implements allreduce() in place {',
  '    let n = twice(1) // 😀',
  '    for r in 1..N { input@0 +=   input@r }',
  '    for r in 1..N { input@r = input@0 }',
  '}',
  '',
].join('\n');

const document = {
  uri: { toString: () => uri },
  languageId: 'msccl',
  version: 1,
  text: TEXT,
  getText() { return this.text; },
};

/** Types `text` over `from..to`, which JavaScript counts in UTF-16 as the protocol does. */
function type(from, to, text) {
  const place = (at) => {
    const lines = document.text.slice(0, at).split('\n');
    return new Position(lines.length - 1, lines[lines.length - 1].length);
  };
  const range = new Range(place(from), place(to));
  document.text = document.text.slice(0, from) + text + document.text.slice(to);
  document.version += 1;
  listeners.change({ document, contentChanges: [{ range, rangeOffset: from, text }] });
}

async function until(what, condition) {
  const started = Date.now();
  while (!condition()) {
    assert(Date.now() - started < 60000, `nothing happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const at = (what, offset = 0) => {
  const lines = document.text.slice(0, document.text.indexOf(what) + offset).split('\n');
  return new Position(lines.length - 1, lines[lines.length - 1].length);
};
const whole = new Range(new Position(0, 0), new Position(100, 0));
const messages = () => (diagnostics.get(uri) ?? [{ message: 'none yet' }]).map((it) => it.message);

const options = { tabSize: 4, insertSpaces: true };

async function drive(extension) {
  documents.push(document);
  await extension.activate({ subscriptions: [] });
  await until('no mistakes', () => messages().length === 0);

  const end = document.text.lastIndexOf('}');
  type(end, end, '    output@0 = inptu@1\n');
  await until('a mistake', () => messages().some((it) => it.includes('`inptu`')));
  const [action] = await providers.actions.provideCodeActions(document, whole);
  assert.strictEqual(action.title, 'write `input` for `inptu`');
  type(end, document.text.lastIndexOf('}'), '');
  await until('no mistake', () => messages().length === 0);

  const hover = await providers.hover.provideHover(document, at('twice(1)', 1));
  assert(hover.contents.value.includes('Doubles. 😀'), hover.contents.value);
  const items = await providers.completion.provideCompletionItems(document, at('input@0', 3));
  assert(items.some((it) => it.label === 'input'));
  const [place] = await providers.definition.provideDefinition(document, at('twice(1)', 1));
  assert(place.uri.toString().endsWith('other.msccl'));
  const edit = await providers.rename.provideRenameEdits(document, at('twice(1)', 1), 'double');
  assert.strictEqual(edit.edits.size, 2);
  const layout = await providers.format.provideDocumentFormattingEdits(document, options);
  assert(layout[0].newText.includes('input@0 += input@r'), JSON.stringify(layout));
  const symbols = await providers.symbols.provideDocumentSymbols(document);
  assert.strictEqual(symbols[0].name, 'a');
  assert((await providers.folding.provideFoldingRanges(document)).length > 0);
  assert((await providers.tokens.provideDocumentSemanticTokens(document)).data.length > 50);
  const help = await providers.signature.provideSignatureHelp(document, at('twice(1)', 6));
  assert.strictEqual(help.signatures[0].label, 'twice(a)');

  const [lens] = await providers.lenses.provideCodeLenses(document);
  assert.strictEqual(lens.command.title, 'prove for 8 ranks');
  const verdict = await commands[lens.command.command](...lens.command.arguments);
  assert(verdict.proved, verdict.text);
  const [hint] = await providers.hints.provideInlayHints(document, whole);
  assert(hint.label.startsWith('proved for N = 8'), hint.label);
  const picture = await commands['msccl.timeline'](uri, 'a');
  assert(picture.svg.startsWith('<svg'), picture.svg.slice(0, 80));
  await extension.deactivate();
}

drive(require(path.join(process.argv[2], 'extension.js'))).then(
  () => console.log('ok all'),
  (error) => {
    console.error(error, shown);
    process.exit(1);
  },
);
