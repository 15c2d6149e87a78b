// The worker with the module in it. Questions are answered in order; `stop` ends all of them.

const engine = {
  module: null,
  worker: null,
  ready: null,
  open: new Map(),
  next: 1,

  /// Unpacks and compiles the module, and starts a worker.
  async start() {
    const packed = Uint8Array.from(atob(element("module").textContent), (it) => it.charCodeAt(0));
    this.module = await WebAssembly.compile(unpackLzma(packed));
    await this.spawn();
  },

  spawn() {
    const code = new Blob([element("worker").textContent], { type: "text/javascript" });
    const address = URL.createObjectURL(code);
    const worker = new Worker(address);
    URL.revokeObjectURL(address);
    this.worker = worker;
    this.ready = new Promise((resolve, reject) => {
      worker.onerror = (event) => reject(new Error(event.message));
      worker.onmessage = (event) => {
        if (event.data.ready) return resolve();
        const { id, answer, crash } = event.data;
        const waiting = this.open.get(id);
        this.open.delete(id);
        if (crash) this.restart();
        if (waiting) waiting(crash ? { error: `the prover gave up: ${crash}` } : answer);
      };
    });
    worker.postMessage({ module: this.module });
    return this.ready;
  },

  restart() {
    this.worker.terminate();
    for (const waiting of this.open.values()) waiting({ stopped: true });
    this.open.clear();
    return this.spawn();
  },

  /// The answer to a request; `{ stopped: true }` if it was stopped.
  async ask(request) {
    await this.ready;
    const id = this.next++;
    return new Promise((resolve) => {
      this.open.set(id, resolve);
      this.worker.postMessage({ id, request });
    });
  },
};

function element(id) {
  return document.getElementById(id);
}

/// A new element with attributes, and with texts or elements in it.
function make(name, attributes = {}, ...content) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(key, value);
  }
  made.append(...content);
  return made;
}

function say(text) {
  element("notice").textContent = text;
}
