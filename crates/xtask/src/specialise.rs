//! `cargo xtask specialise`: special kernels ([`msccl_kernels::special`]), into a folder, for
//! `msccl-gpu-tests --only specialised --cubins FOLDER`.
//!
//! The folder gets a file `CASES` with a line for each case, and for line `n` kernels of which the call is known, `n.call.cu`
//! and `n.call.cubin`, and kernels of which only the plan is, `n.plan.cu` and `n.plan.cubin`, all for
//! compute capability 9.0. For each protocol and type among them it also gets the interpreter of these sources,
//! `interpreter.PROTOCOL.TYPE.cubin`, of which there need not be images yet.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use msccl_collective::Rank;
use msccl_gpu::{Nvrtc, Source};
use msccl_kernels::recipe::{Architecture, HEADERS};
use msccl_kernels::special::{self, Case, Known};
use msccl_plan::Plan;
use msccl_registry::{Registry, Shape, Wanted};

use crate::kernels;

/// What is measured unless somebody says otherwise.
const CASES: &[&str] = &[
    "allreduce/one_shot out 2 LL f32 256 1 128",
    "allreduce/one_shot out 2 LL f32 16384 16 256",
    "allreduce/one_shot out 2 LL f32 1048576 32 512",
    "allreduce/one_step in 2 LL f32 256 1 128",
    "allreduce/one_step in 2 LL f32 16384 16 256",
    "allreduce/one_step in 2 LL f32 1048576 32 512",
    "allreduce/one_block in 2 LL f32 256 1 128",
    "allreduce/one_block in 2 LL f32 16384 16 256",
    "allreduce/one_block in 2 LL f32 1048576 32 512",
    "allreduce/two_shot in 2 LL f32 256 1 128",
    "allreduce/two_shot in 2 LL f32 16384 16 256",
    "allreduce/two_shot in 2 LL f32 1048576 32 512",
    "allreduce/two_shot in 2 Simple f32 256 1 128",
    "allreduce/two_shot in 2 Simple f32 16384 16 256",
    "allreduce/two_shot in 2 Simple f32 1048576 32 512",
];

/// Compiles `cases`, or those that are measured by default.
///
/// # Errors
///
/// What went wrong, with what to do.
pub fn write(folder: &Path, cases: &[&str]) -> Result<(), String> {
    let cases = if cases.is_empty() { CASES } else { cases };
    fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    let mut compiler = Compiler::load()?;
    for (number, line) in cases.iter().enumerate() {
        let case: Case = line.parse()?;
        let plans = plans(&case)?;
        for (name, known) in
            [("call", Known::Call { threads: case.threads }), ("plan", Known::Plan)]
        {
            let text = case.source(&plans, known);
            let text = text.ok_or_else(|| format!("`{case}` cannot be cut"))?;
            let file = |extension| folder.join(format!("{number}.{name}.{extension}"));
            kernels::write_file(&file("cu"), text.as_bytes())?;
            let bytes = compiler.special(&format!("{case}, {name} known"), text)?;
            kernels::write_file(&file("cubin"), &bytes)?;
        }
        let bytes = compiler.interpreter(&case)?;
        kernels::write_file(&folder.join(special::interpreter_file(&case)), &bytes)?;
    }
    kernels::write_file(&folder.join("CASES"), (cases.join("\n") + "\n").as_bytes())
}

/// The compiler, and what sources include.
struct Compiler {
    nvrtc: Nvrtc,
    /// For interpreters.
    headers: Vec<Source>,
    /// For special kernels.
    special_headers: Vec<Source>,
    /// What was compiled, by its text.
    compiled: HashMap<String, Vec<u8>>,
}

impl Compiler {
    fn load() -> Result<Self, String> {
        let nvrtc = kernels::load_compiler()?;
        let headers: Result<Vec<_>, _> = HEADERS.iter().map(|path| kernels::source(path)).collect();
        let of_special = special::headers().iter();
        let special_headers = of_special.map(|(name, text)| Source::new(name, text.as_str()));
        let special_headers = special_headers.collect::<Result<_, _>>()?;
        Ok(Self { nvrtc, headers: headers?, special_headers, compiled: HashMap::new() })
    }

    fn special(&mut self, name: &str, text: String) -> Result<Vec<u8>, String> {
        self.once(name, text, |compiler| &compiler.special_headers)
    }

    fn interpreter(&mut self, case: &Case) -> Result<Vec<u8>, String> {
        let name = format!("interpreter over {} of {}", case.protocol, case.data_type);
        self.once(&name, special::interpreter_source(case), |compiler| &compiler.headers)
    }

    /// What the compiler makes of `text`, or has made of it.
    fn once(
        &mut self,
        name: &str,
        text: String,
        headers: impl Fn(&Self) -> &[Source],
    ) -> Result<Vec<u8>, String> {
        if let Some(bytes) = self.compiled.get(&text) {
            return Ok(bytes.clone());
        }
        let bytes = self.compile(name, &text, headers(self))?;
        self.compiled.insert(text, bytes.clone());
        Ok(bytes)
    }

    fn compile(&self, name: &str, text: &str, headers: &[Source]) -> Result<Vec<u8>, String> {
        let main = Source::new("special.cu", text)?;
        let start = Instant::now();
        let bytes = kernels::compile(&self.nvrtc, &main, headers, Architecture::Machine(90));
        let bytes = bytes.map_err(|log| format!("{name}: {log}"))?;
        let took = start.elapsed().as_secs_f64();
        crate::say(&format!("{name}: {} bytes in {took:.1} s", bytes.len()));
        Ok(bytes)
    }
}

/// The plans of all ranks.
fn plans(case: &Case) -> Result<Vec<Plan>, String> {
    let Case { algorithm, in_place, ranks, .. } = case;
    if *ranks == 0 {
        return Err(format!("`{case}` has no ranks"));
    }
    let registry = Registry::new(Shape { ranks: *ranks, per_node: *ranks }, &[]);
    let of = |wanted: &Wanted| algorithm.split('/').next() == Some(wanted.name());
    let wanted = Wanted::all(Rank(ranks - 1)).into_iter().find(of);
    let wanted = wanted.ok_or_else(|| format!("`{algorithm}` is of no collective"))?;
    let entries = registry.built_in(wanted, *in_place);
    let entry = entries.iter().find(|entry| entry.name == *algorithm);
    let entry = entry.ok_or_else(|| format!("no built-in algorithm serves `{case}`"))?;
    Plan::all(&entry.verified).map_err(|error| error.to_string())
}
