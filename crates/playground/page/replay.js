// One run, turn by turn: who sends to whom, who waits for whom, what every slot holds.

/// Most ranks whose slots and thread blocks are written out.
const MOST_RANKS = 16;
/// Most slots of a buffer that are written out.
const MOST_SLOTS = 64;

const replay = {
  data: null,
  turn: 0,
  timer: null,
  /// The steps of the fault, as `rank/tb/step`.
  faults: new Set(),

  /// The panel, made anew for an answer.
  panel(data, faults) {
    this.stop();
    this.data = data;
    this.faults = new Set(faults);
    this.turns = data.events.reduce((most, event) => Math.max(most, event.turn + 1), 0);
    const stalled = data.ending.kind === "stalled";
    const slider = make("input", { type: "range", min: 0, max: this.turns, value: 0,
      id: "turn", "aria-label": "Turn", oninput: (event) => this.go(Number(event.target.value)) });
    const button = (text, label, act) =>
      make("button", { "aria-label": label, title: label, onclick: act }, text);
    const panel = make("div", {},
      make("p", {}, ending(data.ending)),
      make("div", { class: "controls" },
        button("|◀", "to the start", () => this.go(0)),
        button("◀", "one turn back", () => this.go(this.turn - 1)),
        button("▶", "one turn on", () => this.go(this.turn + 1)),
        button("▶|", stalled ? "to the standstill" : "to the end", () => this.go(this.turns)),
        button("play", "play or pause", () => this.play()),
        slider, make("output", { id: "turn-number", for: "turn" })),
      make("p", { class: "quiet" }, `Links hold ${data.depth} messages. Everything takes one ` +
        "turn, so a turn is no measure of time."),
      make("div", { class: "replay" },
        make("div", {}, make("div", { id: "ring" }), make("p", { class: "quiet" },
          "Solid: messages of this turn. Dashed: waits for the rank at the arrow's end."),
          make("ul", { class: "blocks", id: "happens", "aria-live": "polite" })),
        make("div", {}, make("div", { class: "scroll", id: "slots" }),
          make("h2", {}, "Thread blocks"), make("ul", { class: "blocks", id: "blocks" }))));
    panel.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (by && event.target.id !== "turn") this.go(this.turn + by);
    });
    this.states = null;
    queueMicrotask(() => this.go(0));
    return panel;
  },

  play() {
    if (this.timer) return this.stop();
    if (this.turn >= this.turns) this.go(0);
    this.timer = setInterval(() => {
      if (this.turn >= this.turns) return this.stop();
      this.go(this.turn + 1);
    }, 700);
  },

  stop() {
    clearInterval(this.timer);
    this.timer = null;
  },

  /// Shows the state after `turn` turns.
  go(turn) {
    if (!element("turn")) return this.stop();
    this.turn = Math.max(0, Math.min(this.turns, turn));
    const { data } = this;
    const slots = new Map(data.start.map((held) => [held.slice(0, 3).join("/"), held[3]]));
    const fresh = new Set();
    const done = new Map();
    const now = [];
    for (const event of data.events) {
      if (event.turn >= this.turn) break;
      const isNow = event.turn === this.turn - 1;
      if (isNow) now.push(event);
      for (const held of event.written) {
        const key = held.slice(0, 3).join("/");
        slots.set(key, held[3]);
        if (isNow) fresh.add(key);
      }
      done.set(`${event.rank}/${event.tb}`, event);
    }
    const waits = this.waits(done);
    element("turn").value = this.turn;
    element("turn-number").textContent = `${this.turn} of ${this.turns}`;
    element("ring").replaceChildren(ring(data.ranks, now, waits));
    element("slots").replaceChildren(this.slots(slots, fresh));
    element("blocks").replaceChildren(...this.blocks(waits, done));
    const lines = now.slice(0, 24).map((event) => make("li", this.style(event), happening(event)));
    if (now.length > 24) lines.push(make("li", {}, `and ${now.length - 24} more`));
    if (this.turn === this.turns && data.ending.kind === "stalled") {
      lines.push(make("li", { class: "stuck" }, "Nobody can go on."));
    }
    element("happens").replaceChildren(...lines);
  },

  style(at) {
    return this.faults.has(`${at.rank}/${at.tb}/${at.step}`) ? { class: "fault" } : {};
  },

  /// For every thread block that does nothing in the next turn, what it waits for.
  waits(done) {
    const { data } = this;
    const next = new Map();
    for (const event of data.events) {
      const key = `${event.rank}/${event.tb}`;
      if (event.turn >= this.turn && !next.has(key)) next.set(key, event);
    }
    const stalled = new Map((data.ending.blocked ?? []).map((it) => [`${it.rank}/${it.tb}`, it]));
    const found = new Map();
    for (const { rank, tb } of data.blocks) {
      const key = `${rank}/${tb}`;
      const event = next.get(key);
      const blocked = stalled.get(key);
      if (event && event.turn > this.turn && event.waited) {
        const peer = /(?:from|to) r(\d+)/.exec(event.waited);
        found.set(key, { rank, tb, step: event.step, reasons: [{ text: event.waited,
          rank: peer ? Number(peer[1]) : null }] });
      } else if (!event && blocked) {
        found.set(key, { ...blocked, stuck: true });
      }
    }
    return found;
  },

  blocks(waits, done) {
    const shown = this.data.blocks.filter((block) => block.rank < MOST_RANKS);
    return shown.map(({ rank, tb, channel, steps }) => {
      const key = `${rank}/${tb}`;
      const last = done.get(key);
      const wait = waits.get(key);
      const name = `r${rank} tb${tb} ch${channel}`;
      if (wait) {
        const reasons = wait.reasons.map((reason) => reason.text).join("; ");
        const style = wait.stuck ? { class: "stuck" } : {};
        return make("li", style, `${name}, step ${wait.step} of ${steps}: ${reasons}`);
      }
      const at = last ? `step ${last.step} done` : "not begun";
      const ended = last && last.step + 1 === steps;
      return make("li", {}, `${name}: ${ended ? "finished" : at}`);
    });
  },

  slots(slots, fresh) {
    const { data } = this;
    const rows = new Map();
    for (const [rank, buffer, index] of data.start) {
      if (rank >= MOST_RANKS || index >= MOST_SLOTS) continue;
      const key = `${rank}/${buffer}`;
      if (!rows.has(key)) rows.set(key, []);
      rows.get(key).push(index);
    }
    const names = { i: "input", o: "output", s: "scratch" };
    const table = make("table", { class: "slots" });
    const wrong = data.ending.kind === "wrong" && this.turn === this.turns ? data.ending : null;
    for (const [key, indices] of rows) {
      const [rank, buffer] = key.split("/");
      const row = make("tr", {}, make("th", { scope: "row" }, `r${rank} ${names[buffer]}`));
      for (const index of indices) {
        const slot = `${key}/${index}`;
        const number = slots.get(slot);
        const isWrong = wrong && wrong.rank === Number(rank) && wrong.index === index &&
          buffer !== "s";
        const cell = make("td", { class: isWrong ? "wrong" : fresh.has(slot) ? "fresh" : null },
          value(data.values, number));
        if (number !== null && number !== undefined) {
          const share = data.values[number].length / data.ranks;
          const [from, chunk] = data.values[number][0] ?? [0, 0];
          // What comes from one rank alone has a color for each rank.
          const hue = ((data.values[number].length === 1 ? from : 0) * 31 + chunk * 47) % 360;
          cell.style.background = `hsl(${hue} 70% 50% / ${0.12 + 0.38 * Math.min(1, share)})`;
        }
        row.append(cell);
      }
      table.append(row);
    }
    const hidden = data.ranks > MOST_RANKS
      ? [make("caption", {}, `the first ${MOST_RANKS} of ${data.ranks} ranks`)] : [];
    table.prepend(...hidden);
    return table;
  },
};

/// A value in few characters: `0+1.c3` is the sum of chunks 3 of ranks 0 and 1.
function value(values, number) {
  if (number === null || number === undefined) return "·";
  const list = values[number];
  if (list.length === 0) return "0";
  const chunks = new Set(list.map(([, chunk]) => chunk));
  const ranks = list.map(([rank]) => rank);
  const sum = ranks.length > 4
    ? `${ranks.slice(0, 2).join("+")}+…${ranks.length}` : ranks.join("+");
  return chunks.size === 1 ? `${sum}.c${[...chunks][0]}` : `${sum}.c…`;
}

function happening(event) {
  const parts = [];
  const named = (ranks) => ranks.map((rank) => `r${rank}`).join(", ");
  if (event.taken.length) parts.push(`receives from ${named(event.taken)}`);
  if (event.written.length) {
    parts.push(`writes ${event.written.map(([, buffer, at]) => `${buffer}[${at}]`).join(", ")}`);
  }
  if (event.sent.length) parts.push(`sends to ${named(event.sent)}`);
  return `r${event.rank} tb${event.tb} step ${event.step}: ${parts.join(", ") || "waits"}`;
}

function ending(how) {
  if (how.kind === "right") return "This run ends with the right result.";
  if (how.kind === "stalled") {
    return `This run comes to a standstill: ${how.blocked.length} thread blocks wait for ever.`;
  }
  const found = how.found ? how.found.join(" + ") : "nothing that is defined";
  return `This run ends wrong: output ${how.index} of r${how.rank} should hold ` +
    `${how.expected.join(" + ")}, and holds ${found}.`;
}

/// The ranks in a circle, with arrows for messages and for waits.
function ring(ranks, events, waits) {
  const svg = (name, attributes, ...content) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  };
  const radius = ranks > 24 ? 4 : ranks > 12 ? 10 : 17;
  const place = (rank) => {
    const angle = 2 * Math.PI * rank / ranks - Math.PI / 2;
    return [150 + 118 * Math.cos(angle), 150 + 118 * Math.sin(angle)];
  };
  const head = (id, kind) => svg("marker", { id, viewBox: "0 0 6 6", refX: 6, refY: 3,
    markerWidth: 6, markerHeight: 6, orient: "auto" },
  svg("path", { d: "M0 0L6 3L0 6z", style: `fill:var(--${kind})` }));
  const all = [svg("defs", {}, head("head-message", "message"), head("head-wait", "wait"))];
  const arrow = (from, to, kind) => {
    if (from === to || to >= ranks) return;
    const [[x1, y1], [x2, y2]] = [place(from), place(to)];
    const length = Math.hypot(x2 - x1, y2 - y1);
    const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
    const bend = kind === "wait" ? -14 : 14;
    const [mx, my] = [(x1 + x2) / 2 - dy * bend, (y1 + y2) / 2 + dx * bend];
    all.push(svg("path", { class: kind, "marker-end": `url(#head-${kind})`,
      d: `M${x1 + dx * radius} ${y1 + dy * radius}Q${mx} ${my} ` +
        `${x2 - dx * radius} ${y2 - dy * radius}` }));
  };
  for (const event of events) for (const to of event.sent) arrow(event.rank, to, "message");
  const stuck = new Set();
  for (const wait of waits.values()) {
    if (wait.stuck) stuck.add(wait.rank);
    for (const reason of wait.reasons) {
      if (reason.rank !== null && reason.rank !== undefined) arrow(wait.rank, reason.rank, "wait");
    }
  }
  for (let rank = 0; rank < ranks; rank++) {
    const [x, y] = place(rank);
    all.push(svg("circle", { cx: x, cy: y, r: radius,
      class: stuck.has(rank) ? "rank stuck" : "rank" }));
    if (ranks <= 24) {
      all.push(svg("text", { x, y: y + 4, "text-anchor": "middle" }, `r${rank}`));
    }
  }
  const words = `${events.length} events, ${waits.size} thread blocks wait`;
  return svg("svg", { viewBox: "0 0 300 300", role: "img", "aria-label": words }, ...all);
}
