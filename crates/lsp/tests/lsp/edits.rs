//! A thousand random edits: nothing breaks, nothing is stale, and what is said at the end of each
//! run of edits is what the compiler and the verifier say of the editor's own text.

use std::fs;
use std::path::Path;

use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles, algorithms};
use msccl_ir::Target;
use msccl_syntax::{Diagnostic, SourceMap, condensed, format, parse};
use msccl_verify::verify_claim;
use serde_json::{Value, json};

use crate::client::{Client, position};

/// Numbers that look random, the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides as u64) as usize
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.roll(all.len())]
    }
}

/// What is typed: words of the language, characters of all widths, line ends of all kinds.
const TYPED: [&str; 26] = [
    "x",
    " ",
    "\n",
    "\r\n",
    "\r",
    "😀",
    "é",
    "\t",
    "{",
    "}",
    "(",
    ")",
    "input@0",
    " + 1",
    "for r in 0..N { }",
    "// 😀 note\r\n",
    "output@1 = input@0\n",
    "let q = 2\r\n",
    "\"text\"",
    "N",
    "0",
    "..",
    "import ring\n",
    "𝄞𝄞",
    "",
    "[0]",
];

fn programs() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dsl-examples");
    let names = [
        "allreduce/ring",
        "allreduce/one_shot",
        "allgather/bruck",
        "custom/scan",
        "reducescatter/halving",
    ];
    let read = |name: &str| fs::read_to_string(folder.join(name).with_extension("msccl")).unwrap();
    let mut programs: Vec<_> = names.into_iter().map(read).collect();
    let with_crlf = programs[0].replace('\n', "\r\n").replace("Ring", "😀 Ring 𝄞");
    programs.push(with_crlf);
    programs
}

/// A diagnostic as far as both sides have it: where, and the sentence.
type Said = (Value, Value, String);

/// What the compiler and the verifier say of a text.
fn expected(text: &str) -> Vec<Said> {
    let mut sources = SourceMap::new();
    let file = sources.add("/project/main.msccl", text);
    let mut all: Vec<Diagnostic> = Vec::new();
    if let Err(found) = parse(&sources, file) {
        return said(text, &found);
    }
    let names = algorithms(&sources, file).unwrap();
    if names.is_empty() {
        let launch = Launch::default();
        let found = compile(&mut sources, file, &NoFiles, &launch, &Target::native()).unwrap_err();
        all.extend(found.into_iter().filter(|it| it.message != "this file defines no algorithm"));
    }
    for name in names.into_iter().map(|it| it.name) {
        let mut sources = SourceMap::new();
        let file = sources.add("/project/main.msccl", text);
        let launch = Launch { algorithm: Some(name), ..Launch::default() };
        let found = match compile(&mut sources, file, &NoFiles, &launch, &Target::native()) {
            Err(found) => condensed(found),
            Ok(compiled) => {
                let mut found = compiled.chunks.warnings.clone();
                let claim = compiled.chunks.order_claim;
                let target = Target::native().on_nodes(compiled.chunks.per_node);
                let order = claim.map(|claim| claim.order);
                let origins = compiled.schedule.origins;
                let verdict = verify_claim(compiled.schedule.algorithm, &target, order);
                if let Err(refusal) = verdict {
                    let fault = &refusal.faults[0];
                    found.extend(origins.explain(&fault.message, &fault.at));
                }
                found
            }
        };
        all.extend(found);
    }
    said(text, &all)
}

fn said(text: &str, all: &[Diagnostic]) -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    for diagnostic in all {
        // What stands in a module is shown at the call that leads there.
        let place = diagnostic.labels.iter().find(|it| it.span.file.0 == 0);
        let at = |byte: u32| position_within(text, byte as usize);
        let (start, end) = place.map_or((at(0), at(0)), |it| (at(it.span.start), at(it.span.end)));
        let one = (start, end, diagnostic.message.clone());
        if !said.contains(&one) {
            said.push(one);
        }
    }
    said.sort_by_key(|(start, end, message)| (start.to_string(), end.to_string(), message.clone()));
    said
}

/// As [`position`], but between `\r` and `\n` the end of the line.
fn position_within(text: &str, at: usize) -> Value {
    let is_between = text[..at].ends_with('\r') && text[at..].starts_with('\n');
    position(text, if is_between { at - 1 } else { at })
}

fn found(diagnostics: &Value) -> Vec<Said> {
    let all = diagnostics.as_array().unwrap().iter();
    // Results that nobody reads are warnings of the proof, which have tests of their own.
    let all = all.filter(|it| it["code"] != "unread");
    let mut said: Vec<_> = all
        .map(|it| {
            let range = &it["range"];
            let message = it["data"]["message"].as_str().unwrap().to_owned();
            (range["start"].clone(), range["end"].clone(), message)
        })
        .collect();
    said.sort_by_key(|(start, end, message)| (start.to_string(), end.to_string(), message.clone()));
    said.dedup();
    said
}

/// A random place of the text, in UTF-16, never within a character or between `\r` and `\n`.
fn random_place(text: &str, dice: &mut Dice) -> usize {
    let mut at = dice.roll(text.len() + 1);
    while !text.is_char_boundary(at) || (text[..at].ends_with('\r') && text[at..].starts_with('\n'))
    {
        at -= 1;
    }
    at
}

fn random_edit(client: &mut Client, dice: &mut Dice) {
    let text = client.text.clone();
    let start = random_place(&text, dice);
    let mut end = start;
    if dice.roll(3) == 0 {
        let mut target = (start + dice.roll(40)).min(text.len());
        while target > start
            && (!text.is_char_boundary(target)
                || (text[..target].ends_with('\r') && text[target..].starts_with('\n')))
        {
            target -= 1;
        }
        end = target;
    }
    let new = dice.of(&TYPED);
    let range = json!({ "start": position(&text, start), "end": position(&text, end) });
    client.edit(range, new);
}

/// Asks everything at a random place: answers or refusals, but no end.
fn ask_all(client: &mut Client, dice: &mut Dice) {
    let text = client.text.clone();
    let at = position(&text, random_place(&text, dice));
    let mut params = json!({ "textDocument": { "uri": client.uri }, "position": at });
    params["context"] = json!({ "includeDeclaration": true, "diagnostics": [] });
    params["newName"] = json!("renamed");
    params["range"] = json!({ "start": at, "end": at });
    params["options"] = json!({ "tabSize": 4, "insertSpaces": true });
    let methods = [
        "hover",
        "completion",
        "signatureHelp",
        "definition",
        "references",
        "documentHighlight",
        "prepareRename",
        "rename",
        "documentSymbol",
        "foldingRange",
        "semanticTokens/full",
        "rangeFormatting",
        "codeAction",
        "codeLens",
        "inlayHint",
    ];
    let method = dice.of(&methods);
    if let Err(refused) = client.ask(&format!("textDocument/{method}"), params) {
        assert!(!refused.contains("defect"), "{method} at {at} of\n{text}\n{refused}");
    }
}

#[test]
fn a_thousand_random_edits_are_followed() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let programs = programs();
    let mut client = Client::open(&programs[0]);
    let mut edits = 0;
    let mut compared = 0;
    while edits < 1000 {
        // Mostly small changes to what parses, so that all stages are reached.
        let program = dice.of(&programs).clone();
        client.replace(&program);
        for _ in 0..1 + dice.roll(6) {
            random_edit(&mut client, &mut dice);
            edits += 1;
            if dice.roll(2) == 0 {
                ask_all(&mut client, &mut dice);
            }
            if dice.roll(4) == 0 {
                compare(&mut client);
                compared += 1;
            }
        }
        let versions = client.published.iter().filter_map(|it| it.version);
        let versions: Vec<_> = versions.collect();
        assert!(versions.is_sorted(), "an older text after a newer one: {versions:?}");
    }
    eprintln!("{edits} edits, {compared} states compared");
    assert!(compared > 100);
}

/// Holds the diagnostics and the layout of the newest text to those of the libraries.
fn compare(client: &mut Client) {
    let target = expected(&client.text);
    let text = client.text.clone();
    let last = client.final_diagnostics();
    assert_eq!(found(&last), target, "of\n{text}");
    let edits = client.ask("textDocument/formatting", client.whole()).unwrap();
    match format(&text) {
        Ok(laid_out) => {
            // Lines that are right keep what ends them.
            let plain = client.applied(&edits).replace("\r\n", "\n");
            assert_eq!(plain, laid_out, "of\n{text:?}");
        }
        Err(_) => assert_eq!(edits, Value::Null),
    }
}
