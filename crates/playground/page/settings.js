// Which instance of the program is meant, and links that carry all of it.

const FIELDS = ["algorithm", "ranks", "per_node", "instances", "target", "machine", "nodes"];
const NUMBERS = new Set(["ranks", "per_node", "instances", "nodes"]);

const settings = {
  name: "program.msccl",

  /// The file and its settings, as a request has them.
  source() {
    const source = { name: this.name, text: editor.text };
    for (const field of FIELDS) {
      const text = element(field).value.trim();
      if (text === "") continue;
      if (!NUMBERS.has(field)) source[field] = text;
      else if (Number.isInteger(Number(text)) && Number(text) > 0) source[field] = Number(text);
    }
    const params = [...document.querySelectorAll("#params input")]
      .filter((input) => /^-?\d+$/.test(input.value.trim()))
      .map((input) => [input.dataset.name, Number(input.value)]);
    if (params.length) source.params = params;
    return source;
  },

  /// Takes a source over, such as that of a link.
  take(source) {
    this.name = source.name || "program.msccl";
    element("params").replaceChildren();
    delete element("params").dataset.names;
    for (const field of FIELDS) {
      const input = element(field);
      const value = `${source[field] ?? ""}`;
      if (input.tagName === "SELECT" && ![...input.options].some((it) => it.value === value)) {
        input.append(make("option", { value }, value));
      }
      input.value = value;
    }
    this.wanted = new Map(source.params ?? []);
    editor.text = source.text;
    element("text").scrollTo(0, 0);
    editor.scrolled();
  },

  wanted: new Map(),

  /// Offers the algorithms of the text, and the parameters of the chosen one.
  offer(algorithms) {
    const select = element("algorithm");
    const chosen = select.value;
    const names = algorithms.map((algorithm) => algorithm.name);
    select.replaceChildren(make("option", { value: "" }, "the last one"),
      ...names.map((name) => make("option", { value: name }, name)));
    select.value = names.includes(chosen) ? chosen : "";
    const algorithm = algorithms.find((it) => it.name === chosen) ?? algorithms.at(-1);
    const params = (algorithm?.params ?? []).filter((param) => param.role === "plain");
    const place = element("params");
    const known = new Map([...place.querySelectorAll("input")]
      .map((input) => [input.dataset.name, input.value]));
    const listed = params.map((param) => param.name).join();
    if (place.dataset.names === listed) return;
    place.dataset.names = listed;
    place.replaceChildren(...params.map(({ name, default: usual }) => {
      const value = this.wanted.get(name) ?? known.get(name) ?? "";
      return make("label", {}, `${name} `, make("input", { type: "number", "data-name": name,
        placeholder: usual ?? "needed", value: `${value}` }));
    }));
  },
};

/// Text as the fragment of an address, packed.
async function packed(text) {
  const stream = new Blob([text]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

async function unpacked(fragment) {
  const binary = atob(fragment.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (it) => it.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream).text();
}

/// The source that the address has; `null` if it has none. `#=text` is plain, as pages write it.
async function sourceOfAddress() {
  const fragment = location.hash.slice(1);
  if (fragment === "") return null;
  try {
    if (fragment.startsWith("=")) {
      return { name: "program.msccl", text: decodeURIComponent(fragment.slice(1)) };
    }
    const source = JSON.parse(await unpacked(fragment));
    return typeof source.text === "string" ? source : null;
  } catch {
    say("The address has no program that can be read.");
    return null;
  }
}

function save(name, text, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
