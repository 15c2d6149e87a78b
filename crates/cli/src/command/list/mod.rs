//! `msccl list`: what is there to run, and to build upon.

mod order;

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use msccl_compiler::evaluate::{
    AlgorithmSummary, ParamSummary, StandardModule, algorithms, standard_module, standard_modules,
};
use msccl_syntax::SourceMap;
use msccl_syntax::ast::ParamRole;
use serde::Serialize;

use crate::args::{Format, ListArgs};
use crate::collective;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::output::{Output, Paint};
use crate::progress::Progress;
use crate::table::{Align, Table};
use order::{Order, OrderJson};

/// How deep folders are searched.
const DEEPEST: usize = 8;

/// What there is, for programs.
#[derive(Serialize)]
struct OfferJson<'a> {
    algorithms: Vec<EntryJson<'a>>,
    modules: &'a [Module],
}

/// An algorithm, for programs.
#[derive(Serialize)]
struct EntryJson<'a> {
    #[serde(flatten)]
    entry: &'a Entry,
    #[serde(flatten)]
    order: OrderJson,
}

/// What there is.
struct Offer {
    algorithms: Vec<Entry>,
    /// In which order each adds; empty if nobody wants to know.
    orders: Vec<Order>,
    modules: Vec<Module>,
}

/// An algorithm of a file.
#[derive(Serialize)]
struct Entry {
    file: String,
    name: String,
    collective: String,
    parameters: Vec<Parameter>,
    summary: String,
}

/// A parameter of an algorithm.
#[derive(Serialize)]
struct Parameter {
    name: String,
    role: &'static str,
    default: Option<String>,
}

/// A module of the standard library.
#[derive(Serialize)]
struct Module {
    name: &'static str,
    functions: Vec<String>,
    summary: String,
}

/// Where programs are looked for if nothing is said.
const EXAMPLES: &str = "dsl-examples";

/// Lists the algorithms below the folder and the modules of the standard library, or prints the
/// text of one; a file with mistakes is reported and left out.
pub fn list(args: &ListArgs, output: &mut Output) -> Result<Exit> {
    if let Some(name) = &args.name {
        // A failure is reported at the end, by the output itself.
        output.made().write_all(text_of(name)?.as_bytes()).unwrap_or(());
        return Ok(Exit::Success);
    }
    let (mut entries, exit) = entries(args.dir.as_deref(), output)?;
    if let Some(name) = &args.collective {
        let is_known = collective::named(name).is_some();
        if !is_known && !entries.iter().any(|entry| entry.collective == *name) {
            let names = collective::names();
            let text = format!("expected {names}, or a collective of these programs, found {name}");
            return Err(Failure::new(text));
        }
        entries.retain(|entry| entry.collective == *name);
    }
    let wants_orders = args.order || args.report.format == Format::Json;
    let orders = if wants_orders { orders(&entries, args, output) } else { Vec::new() };
    let offer = Offer { algorithms: entries, orders, modules: modules() };
    match args.report.format {
        Format::Json => output.json(&offer.to_json()),
        Format::Human => print(&offer, output),
    }
    Ok(exit)
}

/// In which order each of `entries` adds.
fn orders(entries: &[Entry], args: &ListArgs, output: &Output) -> Vec<Order> {
    let progress = Progress::start("proving", output.is_quiet());
    let prove = |entry: &Entry| {
        progress.now(format!("proving {}", entry.file));
        order::of(entry, args)
    };
    entries.iter().map(prove).collect()
}

/// The text of a built-in program or of a module.
fn text_of(name: &str) -> Result<String> {
    if let Some(text) = msccl_registry::built_in_programs().get(name) {
        return Ok((*text).to_owned());
    }
    let unknown = || {
        format!(
            "there is no built-in program or module {name}; `msccl list` names those that there are"
        )
    };
    let module = standard_module(name).ok_or_else(|| Failure::new(unknown()))?;
    Ok(module.text.to_owned())
}

/// The algorithms of the requested folder, or of the examples; where there are none, the built-in
/// ones.
fn entries(folder: Option<&str>, output: &mut Output) -> Result<(Vec<Entry>, Exit)> {
    let folder = match folder {
        Some(folder) => folder,
        None if Path::new(EXAMPLES).is_dir() => EXAMPLES,
        None => return Ok((built_in_entries()?, Exit::Success)),
    };
    let mut entries = Vec::new();
    let mut exit = Exit::Success;
    for file in programs_below(Path::new(folder))? {
        match Input::read(&file.to_string_lossy()).and_then(entries_of) {
            Ok(found) => entries.extend(found),
            Err(failure) => {
                output.failure(&failure);
                exit = Exit::Unusable;
            }
        }
    }
    Ok((entries, exit))
}

fn built_in_entries() -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (name, text) in msccl_registry::built_in_programs() {
        entries.extend(entries_of(Input { name: name.to_owned(), text: text.to_owned() })?);
    }
    Ok(entries)
}

/// Every `.msccl` file below `folder`, in the order of their names.
fn programs_below(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    search(folder, DEEPEST, &mut found).map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => "there is no such folder".to_owned(),
            ErrorKind::NotADirectory => "it is no folder".to_owned(),
            _ => error.to_string(),
        };
        let folder = folder.display();
        Failure::new(format!("cannot list {folder}: {reason}; name another folder with --dir"))
    })?;
    found.sort();
    Ok(found)
}

fn search(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && depth > 0 {
            search(&path, depth - 1, found)?;
        } else if path.extension().is_some_and(|extension| extension == "msccl") {
            found.push(path);
        }
    }
    Ok(())
}

fn entries_of(input: Input) -> Result<Vec<Entry>> {
    let Input { name, text } = input;
    let mut sources = SourceMap::new();
    let id = sources.add(name.clone(), text);
    let found = algorithms(&sources, id)
        .map_err(|diagnostics| Failure::diagnostics(&sources, &diagnostics))?;
    let head = first_comment(sources.text(id));
    Ok(found.into_iter().map(|summary| Entry::of(&name, summary, &head)).collect())
}

impl Entry {
    fn of(file: &str, summary: AlgorithmSummary, head: &str) -> Self {
        let AlgorithmSummary { name, collective, params, doc, span: _ } = summary;
        let own = doc.lines().next().filter(|line| !line.is_empty());
        Self {
            file: file.to_owned(),
            name,
            collective,
            parameters: params.into_iter().map(Parameter::of).collect(),
            summary: own.unwrap_or(head).to_owned(),
        }
    }

    /// `ranks N = 8, C = 1`, as its author wrote it.
    fn signature(&self) -> String {
        let one = |parameter: &Parameter| {
            let Parameter { name, role, default } = parameter;
            let role = if role.is_empty() { String::new() } else { format!("{role} ") };
            let default = default.as_ref().map(|value| format!(" = {value}"));
            format!("{role}{name}{}", default.unwrap_or_default())
        };
        self.parameters.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

impl Parameter {
    fn of(param: ParamSummary) -> Self {
        let ParamSummary { name, role, default } = param;
        let role = match role {
            ParamRole::Ranks => "ranks",
            ParamRole::PerNode => "per_node",
            ParamRole::Plain => "",
        };
        Self { name, role, default }
    }
}

/// The first sentence of the comment that a file begins with.
fn first_comment(text: &str) -> String {
    let lines = text.lines().map(str::trim).skip_while(|line| line.is_empty());
    let comment = lines.map_while(|line| line.strip_prefix("//")).map(str::trim);
    let paragraph: Vec<_> = comment.take_while(|line| !line.is_empty()).collect();
    let paragraph = paragraph.join(" ");
    match paragraph.split_once(". ") {
        Some((sentence, _)) => format!("{sentence}."),
        None => paragraph,
    }
}

/// The modules of the standard library.
fn modules() -> Vec<Module> {
    standard_modules().map(Module::of).collect()
}

impl Module {
    fn of(module: StandardModule) -> Self {
        let StandardModule { name, text } = module;
        let heads = text.lines().filter_map(|line| line.strip_prefix("fn "));
        let functions = heads.filter_map(|line| Some(format!("{})", line.split_once(')')?.0)));
        Self { name, functions: functions.collect(), summary: first_comment(text) }
    }
}

impl Offer {
    fn to_json(&self) -> OfferJson<'_> {
        let Offer { algorithms, orders, modules } = self;
        let entries = algorithms.iter().zip(orders);
        let algorithms = entries.map(|(entry, order)| EntryJson { entry, order: order.into() });
        OfferJson { algorithms: algorithms.collect(), modules }
    }
}

fn print(offer: &Offer, output: &mut Output) {
    let Offer { algorithms, orders, modules } = offer;
    if algorithms.is_empty() {
        output.line("no algorithms")
    } else {
        print_table(&algorithm_table(algorithms, orders), output)
    }
    output.line("");
    let mut table = Table::new(&[("module", Align::Left), ("", Align::Left)]);
    for Module { name, functions: _, summary } in modules {
        table.row([format!("import {name}"), summary.clone()]);
    }
    print_table(&table, output);
}

/// A row for each algorithm; with a column for its order if `orders` are known.
fn algorithm_table(algorithms: &[Entry], orders: &[Order]) -> Table {
    let order_column = (!orders.is_empty()).then_some(("order", Align::Left));
    let columns = [("collective", Align::Left), ("algorithm", Align::Left)].into_iter();
    let rest = [("parameters", Align::Left), ("file", Align::Left), ("", Align::Left)];
    let mut table = Table::new(&columns.chain(order_column).chain(rest).collect::<Vec<_>>());
    let mut orders = orders.iter();
    for entry in algorithms {
        let Entry { file, name, collective, parameters: _, summary } = entry;
        let order = orders.next().map(order::cell);
        let rest = [entry.signature(), file.clone(), summary.clone()];
        table.row([collective.clone(), name.clone()].into_iter().chain(order).chain(rest));
    }
    table
}

fn print_table(table: &Table, output: &mut Output) {
    for (index, line) in table.lines().into_iter().enumerate() {
        let line = if index == 0 { output.paint(Paint::Dim, line) } else { line };
        output.line(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use msccl_compiler::evaluate::{Launch, NoFiles, evaluate};

    #[test]
    fn summaries_are_first_sentences() {
        let check = |text: &str, expected: &str| assert_eq!(first_comment(text), expected);
        check("\n// Rings: each to\n// the next. More.\n", "Rings: each to the next.");
        check("// A ring.\n//\n// Details", "A ring.");
        check("algorithm", "");
    }

    #[test]
    fn every_module_of_the_library_is_listed() {
        let mut sources = SourceMap::new();
        let file = sources.add("list", "import nothing");
        let diagnostics = evaluate(&mut sources, file, &NoFiles, &Launch::default()).unwrap_err();
        let hints = diagnostics[0].hints.join(" ");
        let names: Vec<_> = modules().iter().map(|module| module.name).collect();
        assert!(hints.contains(&names.join(", ")), "{hints}");
        assert_eq!(names.len(), standard_modules().count());
    }
}
