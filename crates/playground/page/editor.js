// The editor: a text area over a painted copy of its text.

const editor = {
  diagnostics: [],
  words: new Set(("import fn collective algorithm implements in place let if then else for on " +
    "scratch require given promise sum by and or not true false ranks per_node channel " +
    "instances bytes protocol chunks order").split(" ")),

  get text() {
    return element("text").value;
  },

  set text(value) {
    element("text").value = value;
    this.repaint();
  },

  /// Marks what is wrong, in the text and at the side.
  mark(diagnostics) {
    this.diagnostics = diagnostics;
    this.repaint();
  },

  repaint() {
    const text = this.text;
    const marks = ranges(text, this.diagnostics);
    const paint = element("paint");
    paint.replaceChildren();
    for (const { from, to, kind } of tokens(text, this.words)) {
      put(paint, text, from, to, kind, marks);
    }
    paint.append("\n");
    const lines = text.split("\n").length;
    const gutter = element("gutter");
    const rows = [];
    for (let line = 1; line <= lines; line++) {
      const kind = marks.find((mark) => mark.line === line && mark.kind === "fault")
        ?? marks.find((mark) => mark.line === line);
      rows.push(make("div", kind ? { class: kind.kind } : {}, kind ? `● ${line}` : `${line}`));
    }
    gutter.replaceChildren(...rows);
    this.scrolled();
  },

  scrolled() {
    const { scrollTop, scrollLeft } = element("text");
    element("paint").scrollTop = scrollTop;
    element("paint").scrollLeft = scrollLeft;
    element("gutter").scrollTop = scrollTop;
  },

  /// Puts the cursor at a line and column, both from 1.
  goTo(line, column) {
    const at = offset(this.text, line, column);
    const area = element("text");
    area.focus();
    area.setSelectionRange(at, at);
    area.scrollTop = Math.max(0, (line - 6) * 19);
    this.scrolled();
  },
};

/// Where a line and a column in characters are in a JavaScript string.
function offset(text, line, column) {
  const lines = text.split("\n");
  let at = 0;
  for (let before = 0; before < line - 1 && before < lines.length; before++) {
    at += lines[before].length + 1;
  }
  const characters = [...(lines[line - 1] ?? "")];
  return at + characters.slice(0, column - 1).join("").length;
}

/// The ranges of text that diagnostics are about.
function ranges(text, diagnostics) {
  const name = settings.name;
  const found = [];
  const add = (place, kind) => {
    if (place.file !== name) return;
    const from = offset(text, place.line, place.column);
    let to = place.end_line ? offset(text, place.end_line, place.end_column) : from;
    if (to <= from) to = from + (/^[<]?[\w@]+/.exec(text.slice(from))?.[0].length ?? 1);
    found.push({ from, to, kind, line: place.line });
  };
  for (const diagnostic of diagnostics) {
    add(diagnostic, diagnostic.severity === "error" ? "fault" : "related");
    for (const related of diagnostic.related ?? []) add(related, "related");
  }
  return found;
}

/// Cuts the text into tokens to paint; every character is in one of them.
function tokens(text, words) {
  const isXml = text.trimStart().startsWith("<");
  const pattern = isXml
    ? /(?<comment><!--[^]*?(?:-->|$))|(?<keyword><\/?[\w]+|\/?>)|(?<string>"[^"]*"|'[^']*')/g
    : new RegExp("(?<comment>//[^\\n]*)|(?<string>\"(?:[^\"\\\\\\n]|\\\\.)*\"?)|" +
      "(?<number>\\b\\d[\\d_]*(?:KiB|MiB|GiB)?\\b)|(?<word>[A-Za-z_]\\w*)", "g");
  const found = [];
  let at = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > at) found.push({ from: at, to: match.index, kind: "" });
    const { comment, string, number, keyword } = match.groups;
    let kind = comment ? "comment" : string ? "string" : number ? "number" : "";
    if (keyword) kind = "keyword";
    if (!isXml && match.groups.word) {
      const word = match.groups.word;
      if (word === "input" || word === "output") kind = "buffer";
      else if (words.has(word)) kind = "keyword";
    }
    at = match.index + match[0].length;
    found.push({ from: match.index, to: at, kind });
  }
  if (at < text.length) found.push({ from: at, to: text.length, kind: "" });
  return found;
}

/// Appends text between two places, cut where marks begin or end.
function put(paint, text, from, to, kind, marks) {
  const inside = (at) => at > from && at < to;
  const cuts = marks.flatMap((mark) => [mark.from, mark.to]).filter(inside);
  const edges = [from, ...new Set(cuts.sort((one, other) => one - other)), to];
  for (let index = 0; index + 1 < edges.length; index++) {
    const [start, end] = [edges[index], edges[index + 1]];
    const covers = (mark) => mark.from <= start && mark.to >= end;
    const mark = marks.find((it) => covers(it) && it.kind === "fault") ?? marks.find(covers);
    const names = [kind, mark ? `${mark.kind}-text` : ""].filter((name) => name).join(" ");
    const part = text.slice(start, end);
    paint.append(names ? make("span", { class: names }, part) : part);
  }
}

/// A new line begins where the one before it did.
function keepIndent(event) {
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.isComposing) return;
  const area = element("text");
  const start = area.value.lastIndexOf("\n", area.selectionStart - 1) + 1;
  const line = area.value.slice(start, area.selectionStart);
  const indent = /^ */.exec(line)[0] + (line.trimEnd().endsWith("{") ? "    " : "");
  event.preventDefault();
  area.setRangeText(`\n${indent}`, area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new Event("input"));
}
