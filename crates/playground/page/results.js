// The views of what is known: each asks when it is first looked at.

const results = {
  verdict: null,
  shown: "replay",
  made: new Map(),
  pinned: [],

  views: [
    ["replay", "Step through"], ["chunks", "Chunks"], ["schedule", "Schedule"],
    ["timeline", "Timeline"], ["figures", "Estimates"], ["facts", "Facts"],
    ["compare", "Compare"],
  ],

  begin() {
    const tabs = this.views.map(([name, title]) => make("button", { role: "tab",
      id: `tab-${name}`, "aria-controls": `panel-${name}`, onclick: () => this.show(name) },
    title));
    element("tabs").replaceChildren(...tabs);
    element("tabs").addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const at = this.views.findIndex(([name]) => name === this.shown);
      const [name] = this.views[(at + by + this.views.length) % this.views.length];
      this.show(name);
      element(`tab-${name}`).focus();
    });
    element("panels").replaceChildren(...this.views.map(([name]) => make("div", {
      role: "tabpanel", id: `panel-${name}`, "aria-labelledby": `tab-${name}` })));
    this.show(this.shown);
  },

  /// A new text or setting: nothing that was made holds any more.
  changed() {
    this.made.clear();
    replay.stop();
  },

  async show(name) {
    this.shown = name;
    for (const [other] of this.views) {
      const is = other === name;
      element(`tab-${other}`).setAttribute("aria-selected", is);
      element(`tab-${other}`).tabIndex = is ? 0 : -1;
      element(`panel-${other}`).hidden = !is;
    }
    if (this.verdict && !this.made.has(name)) {
      this.made.set(name, true);
      await this.fill(name);
    }
  },

  async fill(name) {
    const panel = element(`panel-${name}`);
    const source = settings.source();
    const ask = async (request) => {
      const answer = await engine.ask(request);
      if (answer.stopped) this.made.delete(name);
      return answer;
    };
    if (name === "facts") return panel.replaceChildren(facts(this.verdict));
    if (name === "compare") return this.compare();
    if (this.verdict.unreadable) {
      return panel.replaceChildren(make("p", { class: "quiet" }, "The text has mistakes."));
    }
    const request = { op: name, source };
    if (name === "timeline" && this.bytes) request.bytes = this.bytes;
    const answer = await ask(request);
    if (answer.stopped) return panel.replaceChildren();
    if (answer.error) return panel.replaceChildren(make("p", { class: "error" }, answer.error));
    if (name === "replay") {
      const at = this.verdict.verdict?.at ?? [];
      return panel.replaceChildren(replay.panel(answer, at.map((it) =>
        `${it.rank}/${it.tb}/${it.step}`)));
    }
    if (name === "figures") return panel.replaceChildren(estimates(answer));
    const parts = [];
    if (name === "timeline") parts.push(this.sizes(answer));
    if (answer.note) parts.push(make("p", { class: "quiet" }, answer.note));
    if (answer.svg) parts.push(picture(answer.svg, name));
    if (answer.text) parts.push(make("pre", { class: "code", tabindex: 0 }, answer.text));
    panel.replaceChildren(...parts);
  },

  /// Which call the timeline is of.
  sizes(answer) {
    const select = make("select", { onchange: (event) => {
      this.bytes = Number(event.target.value);
      this.fill("timeline");
    } });
    for (let power = 10; power <= 30; power += 2) {
      const bytes = 2 ** power;
      const chosen = this.bytes ? bytes === this.bytes : answer.size === size(bytes);
      select.append(make("option", { value: bytes, selected: chosen ? "" : null }, size(bytes)));
    }
    return make("p", {}, make("label", {}, "Size of the call ", select),
      ` ${answer.us.toFixed(1)} µs on ${answer.assumptions}; ${answer.how}`);
  },

  async compare() {
    const panel = element("panel-compare");
    const pin = make("button", { onclick: () => {
      this.pinned.push(settings.source());
      this.compare();
    } }, "Keep this program for comparison");
    const clear = make("button", { onclick: () => {
      this.pinned = [];
      this.compare();
    } }, "Forget all");
    const head = make("p", { class: "controls" }, pin, ...(this.pinned.length ? [clear] : []));
    const sources = [...this.pinned, settings.source()];
    const answer = await engine.ask({ op: "compare", sources });
    if (answer.stopped) return;
    panel.replaceChildren(head, ...comparison(answer.columns ?? []));
  },
};

function picture(svg, label) {
  const box = make("div", { class: "picture", tabindex: 0, role: "img", "aria-label": label });
  // Names of a program stand for themselves in it: whoever drew it escaped them.
  box.innerHTML = svg;
  return box;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB"];
  const unit = Math.floor(Math.log2(bytes) / 10);
  return `${bytes / 1024 ** unit} ${units[unit]}`;
}

function facts(answer) {
  const list = make("dl", {});
  for (const [name, text] of answer.facts ?? []) {
    list.append(make("dt", {}, name), make("dd", {}, text));
  }
  return make("div", {}, list, make("p", { class: "quiet" },
    "S stands for the bytes of the largest buffer of a call."));
}

function estimates({ assumptions, estimates, chain, loads, bound }) {
  const table = make("table", {}, make("tr", {}, ...["size", "µs", "at least", "times the bound"]
    .map((name) => make("th", {}, name)), make("th", { class: "words" }, "how it runs")));
  for (const { size, us, least_us, by, how } of estimates) {
    const least = least_us === null ? "–" : `${least_us.toFixed(1)} (${by})`;
    const times = us !== null && least_us ? (us / least_us).toFixed(2) : "";
    table.append(make("tr", {}, make("td", {}, size),
      make("td", {}, us === null ? "–" : us.toFixed(1)), make("td", {}, least),
      make("td", {}, times), make("td", { class: "words" }, how)));
  }
  const lines = [...loads, ...bound].map((line) => make("li", {}, line));
  return make("div", {}, make("p", {}, `On ${assumptions}.`,
    chain === null ? "" : ` The longest chain of a small call has ${chain} messages.`),
  make("div", { class: "scroll" }, table), make("h2", {}, "Beside the bound"),
  make("ul", {}, ...lines), make("p", { class: "quiet" },
    "Times are estimates of a cost model. They are for comparing."));
}

const COLORS = ["#1f6feb", "#d9480f", "#2b8a3e", "#862e9c", "#c2255c", "#0b7285"];

function comparison(columns) {
  const good = columns.filter((column) => column.estimates);
  const bad = columns.filter((column) => column.error)
    .map((column) => make("p", { class: "error" }, `${column.name}: ${column.error}`));
  if (good.length === 0) return bad;
  const table = make("table", {}, make("tr", {}, make("th", {}, "µs"), ...good.map((column, at) => {
    const head = make("th", {}, `${column.name}`);
    head.style.color = COLORS[at % COLORS.length];
    return head;
  })));
  good[0].estimates.forEach(({ size }, row) => {
    const times = good.map((column) => column.estimates[row].us);
    const best = Math.min(...times.filter((us) => us !== null));
    table.append(make("tr", {}, make("td", {}, size), ...times.map((us) => make("td",
      us === best && good.length > 1 ? { class: "best" } : {},
      us === null ? "–" : us.toFixed(1)))));
  });
  const row = (name, of) => make("tr", {}, make("th", { class: "words" }, name),
    ...good.map((column) => make("td", { class: "words" }, `${of(column) ?? "–"}`)));
  table.append(row("counts", (it) => it.counts), row("order", (it) => it.order),
    row("longest chain", (it) => it.chain), row("busiest link", (it) => it.loads[0]));
  const machines = [...new Set(good.map((column) => column.assumptions))];
  return [...bad, chart(good), make("div", { class: "scroll" }, table),
    make("p", { class: "quiet" }, `On ${machines.join("; on ")}. Estimates of a cost model.`)];
}

/// Time over size, both logarithmic.
function chart(columns) {
  const points = columns.map((column) => column.estimates.filter((it) => it.us !== null));
  const all = points.flat();
  const svg = (name, attributes, ...content) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  };
  const low = Math.floor(Math.log10(Math.min(...all.map((it) => it.us), 10)));
  const high = Math.ceil(Math.log10(Math.max(...all.map((it) => it.us), 100)));
  const x = (bytes) => 50 + (Math.log2(bytes) - 10) / 20 * 430;
  const y = (us) => 220 - (Math.log10(us) - low) / (high - low) * 200;
  const parts = [];
  for (let power = low; power <= high; power++) {
    parts.push(svg("line", { class: "axis", x1: 50, x2: 480, y1: y(10 ** power),
      y2: y(10 ** power) }), svg("text", { x: 4, y: y(10 ** power) + 4 }, `${10 ** power} µs`));
  }
  for (let power = 10; power <= 30; power += 5) {
    const bytes = 2 ** power;
    parts.push(svg("text", { x: x(bytes), y: 240, "text-anchor": "middle" }, size(bytes)));
  }
  points.forEach((line, at) => parts.push(svg("polyline", { fill: "none", "stroke-width": 2,
    stroke: COLORS[at % COLORS.length],
    points: line.map((it) => `${x(it.bytes)},${y(it.us)}`).join(" ") })));
  return svg("svg", { viewBox: "0 0 500 250", class: "chart", role: "img",
    "aria-label": "time over size" }, ...parts);
}
