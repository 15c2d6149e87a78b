//! Any text: parsed, formatted, compiled and judged, or refused with diagnostics that can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;
use msccl_compiler::compile;
use msccl_compiler::evaluate::{Launch, NoFiles};
use msccl_ir::Target;
use msccl_syntax::{SourceMap, format};
use msccl_verify::verify;

fuzz_target!(|text: &str| {
    let mut sources = SourceMap::new();
    let file = sources.add("fuzz.msccl", text);
    if let Ok(formatted) = format(text) {
        assert_eq!(format(&formatted).as_ref(), Ok(&formatted), "formatting is idempotent");
    }
    let target = Target::native();
    match compile(&mut sources, file, &NoFiles, &Launch::default(), &target) {
        Ok(compiled) => drop(verify(compiled.schedule.algorithm, &target)),
        Err(diagnostics) => drop(sources.render_all(&diagnostics)),
    }
});
