// Joins editor, engine and views: a change is checked at once and proved a moment later.

const CHECK_AFTER_MS = 80;
const PROVE_AFTER_MS = 300;
/// From then on a proof says that it is at work.
const PATIENCE_MS = 250;

const timers = { check: null, prove: null, elapsed: null };
let library = { programs: [], broken: [], machines: [] };
/// The number of the last change: an answer about an older one is stale.
let change = 0;
let isProving = false;

function changed() {
  change += 1;
  results.changed();
  if (isProving) stop("");
  clearTimeout(timers.check);
  clearTimeout(timers.prove);
  timers.check = setTimeout(check, CHECK_AFTER_MS);
  timers.prove = setTimeout(prove, PROVE_AFTER_MS);
}

async function check() {
  const mine = change;
  const answer = await engine.ask({ op: "check", source: settings.source() });
  if (mine !== change || answer.stopped || answer.error) return;
  settings.offer(answer.algorithms);
  if (answer.kind === "program") problems(answer.diagnostics, answer.repairs);
}

async function prove() {
  const mine = change;
  isProving = true;
  const began = performance.now();
  clearInterval(timers.elapsed);
  timers.elapsed = setInterval(() => {
    const seconds = (performance.now() - began) / 1000;
    element("working").hidden = seconds * 1000 < PATIENCE_MS;
    element("elapsed").textContent = `proving for ${seconds.toFixed(1)} s`;
  }, 100);
  const answer = await engine.ask({ op: "prove", source: settings.source() });
  if (mine !== change) return;
  isProving = false;
  clearInterval(timers.elapsed);
  element("working").hidden = true;
  if (answer.stopped) return;
  show(answer, performance.now() - began);
}

/// Ends the proof under way.
function stop(text) {
  isProving = false;
  clearInterval(timers.elapsed);
  element("working").hidden = true;
  if (text) answered("stopped", text, []);
  engine.restart();
}

/// The answer about the text as it is.
function show(answer, took_ms) {
  results.verdict = answer;
  results.changed();
  if (answer.error || answer.unreadable) {
    answered("refused", `✗ ${answer.error ?? "cannot be understood"}`, []);
    problems(answer.diagnostics ?? [], answer.repairs ?? []);
  } else {
    const { verdict, title, lines, diagnostics, warnings, repairs } = answer;
    const isProved = verdict.verdict === "proved";
    const limit = verdict.sound_up_to_bytes;
    const shown = isProved ? lines : [verdict.message, ...lines];
    if (!isProved && limit !== null) shown.push(`calls of up to ${bytes(limit)} go well`);
    const head = isProved ? `✓ proved: ${title}` : `✗ refused: ${verdict.fault}`;
    answered(verdict.verdict, `${head} (${took_ms.toFixed(0)} ms)`, shown);
    problems([...diagnostics, ...warnings], repairs);
  }
  results.show(results.shown);
}

function bytes(count) {
  const fits = (unit) => count % unit === 0;
  if (count >= 1 << 20 && fits(1 << 20)) return `${count / (1 << 20)} MiB`;
  return count >= 1024 && fits(1024) ? `${count / 1024} KiB` : `${count} bytes`;
}

function answered(kind, head, lines) {
  const box = element("verdict");
  box.className = kind;
  box.replaceChildren(make("p", { class: "answer" }, head),
    make("ul", {}, ...lines.map((line) => make("li", {}, line))));
}

/// Lists what is wrong, and marks it in the text.
function problems(diagnostics, repairs) {
  editor.mark(diagnostics);
  const place = (it, text) => make("button", { class: "place",
    onclick: () => editor.goTo(it.line, it.column) }, text);
  const items = diagnostics.map((it) => {
    const item = make("li", { class: it.severity },
      place(it, `${it.line}:${it.column} ${it.severity}: ${it.message}`));
    for (const other of it.related ?? []) {
      item.append(make("span", { class: "hint" },
        place(other, `${other.line}:${other.column} ${other.message}`)));
    }
    for (const hint of it.hints) item.append(make("span", { class: "hint" }, hint));
    return item;
  });
  const actions = repairs.map((repair) => make("button", { class: "repair", onclick: () => {
    editor.text = repair.text;
    say(`Done: ${repair.title}.`);
    changed();
  } }, `Repair: ${repair.title}`));
  if (items.length === 0) items.push(make("li", { class: "quiet" }, "none"));
  element("problems").replaceChildren(...items, ...(actions.length
    ? [make("li", {}, ...actions)] : []));
}

/// Offers what comes with the page.
function offerLibrary() {
  const group = (label, entries) => make("optgroup", { label }, ...entries);
  const broken = library.broken.map(({ name, teaches }) =>
    make("option", { value: `broken:${name}` }, `${name}: ${teaches}`));
  const programs = library.programs.map(({ name }) =>
    make("option", { value: `program:${name}` }, name));
  element("examples").replaceChildren(make("option", { value: "" }, "choose …"),
    group("refused", broken), group("proved", programs));
  for (const { name, title, gpus } of library.machines) {
    element("machine").append(make("option", { value: name }, `${name}: ${title}, ${gpus} GPUs`));
  }
}

function load(source) {
  say("");
  settings.take(source);
  changed();
}

function chooseExample(value) {
  const [kind, name] = [value.slice(0, value.indexOf(":")), value.slice(value.indexOf(":") + 1)];
  const list = kind === "broken" ? library.broken : library.programs;
  const found = list.find((it) => it.name === name);
  if (found) load({ name: kind === "program" ? `${name}.msccl` : name, text: found.text });
}

async function saveAs(what) {
  const source = settings.source();
  const stem = source.name.split("/").at(-1).replace(/\.\w+$/, "");
  if (what === "source") return save(source.name.split("/").at(-1), source.text, "text/plain");
  const answer = await engine.ask(what === "page" ? { op: "page", source }
    : { op: "export", source, dialect: what });
  if (answer.error) return say(`Not saved: ${answer.error}`);
  if (what === "page") return save(`${stem}.html`, answer.html, "text/html");
  save(`${stem}.${what}.xml`, answer.text, "application/xml");
}

async function openFile(file) {
  if (file) load({ name: file.name, text: await file.text() });
}

function listen() {
  const on = (id, kind, act) => element(id).addEventListener(kind, act);
  on("text", "input", () => {
    editor.repaint();
    changed();
  });
  on("text", "keydown", keepIndent);
  on("text", "scroll", () => editor.scrolled());
  on("settings", "input", changed);
  on("settings", "submit", (event) => event.preventDefault());
  on("examples", "change", (event) => chooseExample(event.target.value));
  on("open", "click", () => element("file").click());
  on("file", "change", (event) => openFile(event.target.files[0]));
  on("stop", "click", () => stop("stopped"));
  on("save", "change", async (event) => {
    const what = event.target.value;
    event.target.value = "";
    if (what) await saveAs(what);
  });
  on("format", "click", async () => {
    const answer = await engine.ask({ op: "format", text: editor.text });
    if (answer.error) return say("This cannot be laid out: only programs without mistakes can.");
    editor.text = answer.text;
    changed();
  });
  on("share", "click", async () => {
    history.replaceState(null, "", `#${await packed(JSON.stringify(settings.source()))}`);
    try {
      await navigator.clipboard.writeText(location.href);
      say("The link is copied.");
    } catch {
      say("The link is in the address bar.");
    }
  });
  on("theme", "click", () => document.documentElement.classList.toggle("dark"));
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    openFile(event.dataTransfer.files[0]);
  });
  window.addEventListener("hashchange", async () => {
    const source = await sourceOfAddress();
    if (source) load(source);
  });
}

async function begin() {
  if (matchMedia("(prefers-color-scheme: dark)").matches) {
    document.documentElement.classList.add("dark");
  }
  results.begin();
  listen();
  await engine.start();
  library = await engine.ask({ op: "library" });
  offerLibrary();
  const first = library.programs.find((it) => it.name === "allreduce/ring");
  load(await sourceOfAddress() ?? { name: "allreduce/ring.msccl", text: first.text });
  document.documentElement.dataset.ready = `${performance.now().toFixed(0)}`;
}

begin().catch((error) => answered("refused", `✗ the page cannot start: ${error}`, []));
