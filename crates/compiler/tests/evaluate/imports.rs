//! Imports: files, modules of the standard library, cycles, lists of algorithms.

use super::{lines, show};
use msccl_compiler::chunk::ChunkDag;
use msccl_compiler::evaluate::{Launch, Loader, algorithms, evaluate};
use msccl_syntax::{Diagnostic, SourceMap};

/// Files by name.
struct Files(&'static [(&'static str, &'static str)]);

impl Loader for Files {
    fn load(&self, _importer: &str, path: &str) -> Result<(String, String), String> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        found
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .ok_or_else(|| "no such file".to_owned())
    }
}

/// Evaluates the first file.
fn run(
    files: &'static [(&'static str, &'static str)],
) -> (SourceMap, Result<ChunkDag, Vec<Diagnostic>>) {
    let mut sources = SourceMap::new();
    let (name, text) = files[0];
    let file = sources.add(name, text);
    let result = evaluate(&mut sources, file, &Files(files), &Launch::default());
    (sources, result)
}

fn check_errors(files: &'static [(&'static str, &'static str)], expected: &str) {
    let (sources, result) = run(files);
    let errors = result.map(|dag| super::ops(&dag)).expect_err("bad imports");
    assert_eq!(show(&sources, &errors), lines(expected));
}

const MAIN: &str = "import \"a\"\nimport \"b\"
    algorithm main(ranks N = 2) implements broadcast() in place { copy(0, 1) }";

#[test]
fn a_file_imported_twice_is_read_once() {
    let (_, result) = run(&[
        ("main", MAIN),
        ("a", "import \"b\"\nfn copy(from, to) { output@to[0] = put(from) }"),
        ("b", "fn put(r) = output@r[0]\nalgorithm other(ranks N = 2) implements reduce() {}"),
    ]);
    assert_eq!(
        result.map(|dag| (dag.name.clone(), super::ops(&dag))).unwrap().1,
        ["r1.o[0] = r0.o[0]"]
    );
}

#[test]
fn cycles_and_missing_files_are_reported() {
    check_errors(
        &[("main", MAIN), ("a", "import \"b\""), ("b", "import \"a\"")],
        "1:1 this import closes a cycle",
    );
    check_errors(
        &[("main", MAIN), ("b", "import nothing")],
        "1:1 cannot import \"a\": no such file
         1:1 the standard library has no module `nothing`",
    );
}

/// What a name means where two imported files define it: nothing, and that matters only if used.
#[test]
fn two_imported_definitions_clash_where_they_are_used() {
    let files =
        &[("main", MAIN), ("a", "fn copy(a, b) {}"), ("b", "// b\nfn copy(a, b) {}")] as &'static _;
    check_errors(files, "3:67 two imported files define a function `copy`");
    let (sources, result) = run(files);
    let labels = result.unwrap_err().remove(0).labels;
    let places: Vec<_> = labels
        .iter()
        .map(|label| (sources.name(label.span.file), sources.line_column(label.span).line))
        .collect();
    assert_eq!(places, [("main", 3), ("a", 1), ("b", 2)]);

    check_errors(
        &[
            ("main", "import \"a\"\nimport \"b\"\nalgorithm a(ranks N = 2) implements c() {}"),
            ("a", "collective c(ranks N) {}"),
            ("b", "collective c(ranks N) {}"),
        ],
        "3:37 two imported files define a collective `c`",
    );
    let (_, unused) = run(&[
        ("main", MAIN),
        ("a", "fn same() = 1"),
        ("b", "fn same() = 2 fn copy(a, b) { output@b = output@a }"),
    ]);
    assert!(unused.is_ok());
}

/// Each file goes by its own definition; who imports one that hides another gets the hiding one.
#[test]
fn own_definitions_hide_imported_ones() {
    let (_, result) = run(&[
        (
            "main",
            "import \"a\"
             fn chunk() = 0
             algorithm main(ranks N = 2) implements allgather(chunks 3) in place {
                 output@1[chunk()] = output@0[chunk()]
                 copy()
             }",
        ),
        (
            "a",
            "import \"b\" fn chunk() = 1 fn copy() { output@1[chunk()] = output@0[chunk()] \
             further() }",
        ),
        ("b", "fn chunk() = 2 fn further() { output@1[chunk()] = output@0[chunk()] }"),
    ]);
    let expected = ["r1.o[0] = r0.o[0]", "r1.o[1] = r0.o[1]", "r1.o[2] = r0.o[2]"];
    assert_eq!(super::ops(&result.unwrap()), expected);
}

#[test]
fn errors_of_several_files_come_together() {
    check_errors(
        &[("main", MAIN), ("a", "fn copy(a, b) { let x = y }"), ("b", "fn f() = z")],
        "1:25 nothing here is called `y`
         1:10 nothing here is called `z`",
    );
}

#[test]
fn the_standard_library_is_at_hand() {
    let (sources, result) = run(&[(
        "main",
        "import ring
         algorithm main(ranks N = 3) implements allreduce(chunks N) in place {
             ring_allreduce(0..N, input, 0..N)
         }",
    )]);
    let dag = result.unwrap_or_else(|errors| panic!("{:?}", show(&sources, &errors)));
    assert_eq!(dag.ops.len(), 12);
    assert_eq!(msccl_compiler::chunk::check_promise(&dag), Ok(()));
}

/// The library says what it needs, in words of its own.
#[test]
fn the_standard_library_refuses_blocks_that_do_not_fit() {
    let refusal = |call: &str| {
        let text = format!(
            "import blocks import halving import ring
             algorithm main(ranks N = 4) implements allreduce(chunks N) in place {{ {call} }}"
        );
        let (sources, result) = super::evaluate_text(&text, &Launch::default());
        let errors = result.map(|dag| super::ops(&dag)).expect_err(call);
        let from_main =
            errors[0].labels.iter().any(|label| sources.name(label.span.file) == "test.msccl");
        assert!(from_main, "{errors:?}");
        errors.into_iter().map(|error| error.message).collect::<Vec<_>>()
    };
    let count = ["a requirement does not hold: give one block for each rank of the group"];
    assert_eq!(refusal("ring_allgather(0..N, input, cut(0..N, 2))"), count);
    let run = "a requirement does not hold: \
               the blocks must follow one another, each with a chunk or more";
    assert_eq!(refusal("halving_reducescatter(0..N, input, cut(0..2, N))"), [run]);
    assert_eq!(refusal("doubling_allgather(0..2, input, [2..4, 0..2])"), [run]);
    assert_eq!(refusal("doubling_allgather(0..2, input, [0..1, 2..4])"), [run]);
}

#[test]
fn algorithms_are_listed_with_parameters_and_comment() {
    let mut sources = SourceMap::new();
    let text = "// Not about it.\n\n// The first.\n//  Indented.\nalgorithm a(ranks N = 2 * 4, C) \
                implements reduce(root N - 1) {}\nfn f() = 1\nalgorithm b(ranks N) implements c() \
                {}";
    let file = sources.add("main", text);
    let list = algorithms(&sources, file).unwrap();
    let shown: Vec<_> = list
        .iter()
        .map(|item| {
            let params: Vec<_> = item
                .params
                .iter()
                .map(|param| format!("{} {:?} {:?}", param.name, param.role, param.default))
                .collect();
            format!("{} {} {:?} {:?}", item.name, item.collective, params.join(", "), item.doc)
        })
        .collect();
    assert_eq!(
        shown,
        [
            r#"a reduce "N Ranks Some(\"2 * 4\"), C Plain None" "The first.\n Indented.""#,
            r#"b c "N Ranks None" """#
        ]
    );
}
