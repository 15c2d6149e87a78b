// Messages of JSON-RPC over the standard streams of a process: framing, requests, answers.
'use strict';

const { spawn } = require('child_process');

class Connection {
  /**
   * Starts a server.
   * @param {string[]} command the program and its arguments
   * @param {(method: string, params: any) => any} onRequest what the server asks; may be a promise
   * @param {(method: string, params: any) => void} onNotification what the server tells
   * @param {(reason: string) => void} onEnd the server has ended
   */
  constructor(command, onRequest, onNotification, onEnd) {
    this.onRequest = onRequest;
    this.onNotification = onNotification;
    this.pending = new Map();
    this.next = 1;
    this.buffer = Buffer.alloc(0);
    this.ended = false;
    this.process = spawn(command[0], command.slice(1), { stdio: ['pipe', 'pipe', 'pipe'] });
    this.process.stdout.on('data', (chunk) => this.received(chunk));
    this.process.stdin.on('error', () => {});
    const end = (reason) => {
      if (this.ended) return;
      this.ended = true;
      for (const { reject } of this.pending.values()) reject(new Error(reason));
      this.pending.clear();
      onEnd(reason);
    };
    this.process.on('error', (error) => end(`cannot start ${command.join(' ')}: ${error.message}`));
    this.process.on('exit', (code) => end(`${command.join(' ')} has ended (${code})`));
  }

  write(message) {
    if (this.ended) return;
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }), 'utf8');
    this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.process.stdin.write(body);
  }

  /** Tells the server something. */
  notify(method, params) {
    this.write({ method, params });
  }

  /** Asks the server. `token` may cancel, as those of VS Code do. */
  request(method, params, token) {
    if (this.ended) return Promise.reject(new Error('the server has ended'));
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.pending.set(id, { resolve, reject });
      if (token) token.onCancellationRequested(() => this.notify('$/cancelRequest', { id }));
      this.write({ id, method, params });
    });
  }

  received(chunk) {
    this.buffer = Buffer.concat([this.buffer, chunk]);
    for (;;) {
      const end = this.buffer.indexOf('\r\n\r\n');
      if (end < 0) return;
      const head = this.buffer.toString('ascii', 0, end);
      const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? NaN);
      if (Number.isNaN(length) || this.buffer.length < end + 4 + length) return;
      const body = this.buffer.toString('utf8', end + 4, end + 4 + length);
      this.buffer = this.buffer.subarray(end + 4 + length);
      this.handle(JSON.parse(body));
    }
  }

  async handle(message) {
    if (message.method === undefined) {
      const waiting = this.pending.get(message.id);
      this.pending.delete(message.id);
      if (!waiting) return;
      if (message.error) waiting.reject(new Error(message.error.message));
      else waiting.resolve(message.result);
    } else if (message.id === undefined) {
      this.onNotification(message.method, message.params);
    } else {
      try {
        const result = (await this.onRequest(message.method, message.params)) ?? null;
        this.write({ id: message.id, result });
      } catch (error) {
        this.write({ id: message.id, error: { code: -32603, message: String(error) } });
      }
    }
  }

  /** Says goodbye. */
  async stop() {
    if (this.ended) return;
    try {
      await this.request('shutdown', undefined);
    } finally {
      this.notify('exit');
      this.process.stdin.end();
    }
  }
}

module.exports = { Connection };
