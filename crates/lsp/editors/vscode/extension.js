// The client: starts `msccl lsp`, tells it what is open, and gives its answers to VS Code. It needs
// no package, so that the extension is these files alone.
'use strict';

const vscode = require('vscode');
const { Connection } = require('./connection');
const convert = require('./convert');

const LANGUAGE = 'msccl';
const SELECTOR = ['file', 'untitled'].map((scheme) => ({ language: LANGUAGE, scheme }));

let client;

class Client {
  constructor() {
    this.diagnostics = vscode.languages.createDiagnosticCollection(LANGUAGE);
    this.hintsChanged = new vscode.EventEmitter();
    this.subscriptions = [this.diagnostics, this.hintsChanged];
  }

  settings() {
    return vscode.workspace.getConfiguration(LANGUAGE);
  }

  async start() {
    const command = this.settings().get('command');
    this.connection = new Connection(
      command,
      (method, params) => this.asked(method, params),
      (method, params) => this.notified(method, params),
      (reason) => {
        this.diagnostics.clear();
        if (!this.stopping) vscode.window.showErrorMessage(`msccl: ${reason}`);
      },
    );
    const folders = vscode.workspace.workspaceFolders ?? [];
    const answer = await this.connection.request('initialize', {
      processId: process.pid,
      rootUri: null,
      workspaceFolders: folders.map(({ uri, name }) => ({ uri: uri.toString(), name })),
      initializationOptions: this.settings(),
      capabilities: {
        workspace: { configuration: true, inlayHint: { refreshSupport: true } },
        window: { showDocument: { support: true } },
      },
    });
    this.connection.notify('initialized', {});
    this.register(answer.capabilities);
    vscode.workspace.textDocuments.forEach((document) => this.opened(document));
  }

  // --- What the server says ----------------------------------------------------------------------

  asked(method, params) {
    switch (method) {
      case 'workspace/configuration':
        return params.items.map((item) => vscode.workspace.getConfiguration(item.section));
      case 'workspace/inlayHint/refresh':
        this.hintsChanged.fire();
        return null;
      case 'window/showDocument':
        return this.show(vscode.Uri.parse(params.uri));
      default:
        throw new Error(`${method} is not known`);
    }
  }

  async show(uri) {
    return { success: await vscode.env.openExternal(uri) };
  }

  notified(method, params) {
    if (method === 'textDocument/publishDiagnostics') {
      const uri = vscode.Uri.parse(params.uri);
      const same = (it) => it.uri.toString() === uri.toString();
      const open = vscode.workspace.textDocuments.find(same);
      // What is about an older text would stand at wrong places.
      if (open && params.version !== undefined && params.version !== open.version) return;
      this.diagnostics.set(uri, params.diagnostics.map(convert.diagnostic));
    } else if (method === 'window/showMessage') {
      const show = params.type <= 2 ? 'showWarningMessage' : 'showInformationMessage';
      vscode.window[show](`msccl: ${params.message}`);
    }
  }

  // --- What the server learns --------------------------------------------------------------------

  opened(document) {
    if (document.languageId !== LANGUAGE) return;
    const { version } = document;
    const uri = document.uri.toString();
    const item = { uri, languageId: LANGUAGE, version, text: document.getText() };
    this.connection.notify('textDocument/didOpen', { textDocument: item });
  }

  changed({ document, contentChanges }) {
    if (document.languageId !== LANGUAGE || contentChanges.length === 0) return;
    const textDocument = { uri: document.uri.toString(), version: document.version };
    // Places of all changes are those before the first, so that the last is sent first.
    const changes = [...contentChanges].sort((one, other) => other.rangeOffset - one.rangeOffset);
    const plain = changes.map(({ range, text }) => ({ range: convert.plainRange(range), text }));
    this.connection.notify('textDocument/didChange', { textDocument, contentChanges: plain });
  }

  closed(document) {
    if (document.languageId !== LANGUAGE) return;
    const textDocument = { uri: document.uri.toString() };
    this.connection.notify('textDocument/didClose', { textDocument });
  }

  saved(document) {
    if (document.languageId !== LANGUAGE) return;
    const textDocument = { uri: document.uri.toString() };
    this.connection.notify('textDocument/didSave', { textDocument });
  }

  // --- What VS Code asks -------------------------------------------------------------------------

  ask(question, document, token, more) {
    const textDocument = { uri: document.uri.toString() };
    return this.connection.request(`textDocument/${question}`, { textDocument, ...more }, token);
  }

  at(question, document, position, token, more) {
    const place = { position: convert.plainPosition(position), ...more };
    return this.ask(question, document, token, place);
  }

  register(capabilities) {
    const { languages, workspace } = vscode;
    const list = (found, of) => (found ?? []).map(of);
    const providers = [
      workspace.onDidOpenTextDocument((it) => this.opened(it)),
      workspace.onDidChangeTextDocument((it) => this.changed(it)),
      workspace.onDidCloseTextDocument((it) => this.closed(it)),
      workspace.onDidSaveTextDocument((it) => this.saved(it)),
      workspace.onDidChangeConfiguration((event) => {
        if (!event.affectsConfiguration(LANGUAGE)) return;
        const settings = { msccl: this.settings() };
        this.connection.notify('workspace/didChangeConfiguration', { settings });
      }),
      languages.registerHoverProvider(SELECTOR, {
        provideHover: async (document, position, token) => {
          const found = await this.at('hover', document, position, token);
          if (!found) return null;
          const range = found.range && convert.range(found.range);
          return new vscode.Hover(convert.markdown(found.contents.value), range);
        },
      }),
      languages.registerCompletionItemProvider(SELECTOR, {
        provideCompletionItems: async (document, position, token) =>
          list(await this.at('completion', document, position, token), convert.completionItem),
      }, '@', '('),
      languages.registerSignatureHelpProvider(SELECTOR, {
        provideSignatureHelp: async (document, position, token) => {
          const found = await this.at('signatureHelp', document, position, token);
          return found && convert.signatureHelp(found);
        },
      }, '(', ','),
      languages.registerDefinitionProvider(SELECTOR, {
        provideDefinition: async (document, position, token) =>
          list(await this.at('definition', document, position, token), convert.location),
      }),
      languages.registerReferenceProvider(SELECTOR, {
        provideReferences: async (document, position, context, token) => {
          const more = { context: { includeDeclaration: context.includeDeclaration } };
          const found = await this.at('references', document, position, token, more);
          return list(found, convert.location);
        },
      }),
      languages.registerRenameProvider(SELECTOR, {
        prepareRename: async (document, position, token) =>
          convert.range(await this.at('prepareRename', document, position, token)),
        provideRenameEdits: async (document, position, newName, token) =>
          convert.workspaceEdit(await this.at('rename', document, position, token, { newName })),
      }),
      languages.registerDocumentSymbolProvider(SELECTOR, {
        provideDocumentSymbols: async (document, token) =>
          list(await this.ask('documentSymbol', document, token), convert.symbol),
      }),
      languages.registerFoldingRangeProvider(SELECTOR, {
        provideFoldingRanges: async (document, _context, token) =>
          list(await this.ask('foldingRange', document, token), ({ startLine, endLine, kind }) => {
            const kinds = vscode.FoldingRangeKind;
            const found = kind === 'comment' ? kinds.Comment : kinds.Region;
            return new vscode.FoldingRange(startLine, endLine, found);
          }),
      }),
      languages.registerDocumentFormattingEditProvider(SELECTOR, {
        provideDocumentFormattingEdits: async (document, options, token) =>
          list(await this.ask('formatting', document, token, { options }), convert.textEdit),
      }),
      languages.registerDocumentRangeFormattingEditProvider(SELECTOR, {
        provideDocumentRangeFormattingEdits: async (document, range, options, token) => {
          const more = { range: convert.plainRange(range), options };
          return list(await this.ask('rangeFormatting', document, token, more), convert.textEdit);
        },
      }),
      languages.registerCodeActionsProvider(SELECTOR, {
        provideCodeActions: async (document, range, _context, token) => {
          const more = { range: convert.plainRange(range), context: { diagnostics: [] } };
          return list(await this.ask('codeAction', document, token, more), convert.codeAction);
        },
      }),
      languages.registerCodeLensProvider(SELECTOR, {
        provideCodeLenses: async (document, token) =>
          list(await this.ask('codeLens', document, token), ({ range, command }) => {
            return new vscode.CodeLens(convert.range(range), command);
          }),
      }),
      languages.registerInlayHintsProvider(SELECTOR, {
        onDidChangeInlayHints: this.hintsChanged.event,
        provideInlayHints: async (document, range, token) => {
          const more = { range: convert.plainRange(range) };
          return list(await this.ask('inlayHint', document, token, more), convert.inlayHint);
        },
      }),
      this.semanticTokens(capabilities.semanticTokensProvider.legend),
      ...capabilities.executeCommandProvider.commands.map((command) =>
        vscode.commands.registerCommand(command, (...given) => {
          const params = { command, arguments: given };
          return this.connection.request('workspace/executeCommand', params).catch((error) => {
            vscode.window.showErrorMessage(`msccl: ${error.message}`);
          });
        }),
      ),
    ];
    this.subscriptions.push(...providers);
  }

  semanticTokens({ tokenTypes, tokenModifiers }) {
    const legend = new vscode.SemanticTokensLegend(tokenTypes, tokenModifiers);
    const provider = {
      provideDocumentSemanticTokens: async (document, token) => {
        const found = await this.ask('semanticTokens/full', document, token);
        return new vscode.SemanticTokens(new Uint32Array(found.data));
      },
    };
    return vscode.languages.registerDocumentSemanticTokensProvider(SELECTOR, provider, legend);
  }

  async stop() {
    this.stopping = true;
    this.subscriptions.splice(0).forEach((it) => it.dispose());
    await this.connection?.stop().catch(() => {});
  }
}

async function start() {
  client = new Client();
  await client.start().catch(() => {});
}

async function activate(context) {
  const restart = vscode.commands.registerCommand('msccl.restart', async () => {
    await client?.stop();
    await start();
  });
  context.subscriptions.push(restart);
  await start();
}

function deactivate() {
  return client?.stop();
}

module.exports = { activate, deactivate };
