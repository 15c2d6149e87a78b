"use strict";
// Runs the module: a request is an object, an answer its JSON. Ends when the page ends it.
let wasm = null;

function answer(request) {
  const bytes = new TextEncoder().encode(JSON.stringify(request));
  const room = wasm.msccl_alloc(bytes.length);
  new Uint8Array(wasm.memory.buffer, room, bytes.length).set(bytes);
  const block = wasm.msccl_answer(room, bytes.length);
  if (block === 0) throw new Error("there is not enough memory for the answer");
  const length = new DataView(wasm.memory.buffer).getUint32(block, true);
  const text = new TextDecoder().decode(new Uint8Array(wasm.memory.buffer, block + 4, length));
  wasm.msccl_free(block);
  return JSON.parse(text);
}

self.onmessage = async (event) => {
  const { module, id, request } = event.data;
  if (module) {
    wasm = (await WebAssembly.instantiate(module, {})).exports;
    self.postMessage({ ready: true });
    return;
  }
  try {
    self.postMessage({ id, answer: answer(request) });
  } catch (error) {
    self.postMessage({ id, crash: String(error) });
  }
};
