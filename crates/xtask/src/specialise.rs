//! `cargo xtask specialise`: special kernels ([`msccl_kernels::specialised`]), into a folder, for
//! `msccl-gpu-tests --only interpretation-cost --cubins FOLDER`.
//!
//! The folder gets a file `CASES` with a line for each case, and for line `n` kernels of which the call is known, `n.call.cu`
//! and `n.call.cubin`, and kernels of which only the plan is, `n.plan.cu` and `n.plan.cubin`, all for
//! compute capability 9.0. For each protocol and type among them it also gets the interpreter of these sources,
//! `interpreter.PROTOCOL.TYPE.cubin`, of which there need not be images yet.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Instant;

use msccl_collective::{CallPlacement, CollectiveKind, Rank};
use msccl_gpu::{Form, Nvrtc, Source};
use msccl_kernels::build::Sources;
use msccl_kernels::recipe::{Architecture, options};
use msccl_kernels::specialised::{self, Case, Known};
use msccl_plan::Plan;
use msccl_registry::{Registry, Shape};

use crate::{compiler, kernels};

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
            kernels::write_at(&file("cu"), text.as_bytes())?;
            let bytes = compiler.special(&format!("{case}, {name} known"), text)?;
            kernels::write_at(&file("cubin"), &bytes)?;
        }
        let bytes = compiler.interpreter(&case)?;
        kernels::write_at(&folder.join(specialised::interpreter_file(&case)), &bytes)?;
    }
    kernels::write_at(&folder.join("CASES"), (cases.join("\n") + "\n").as_bytes())
}

/// What special kernels and interpreters are built for.
const ARCHITECTURE: Architecture = Architecture::Machine(90);

/// The compiler, and what it has compiled.
struct Compiler {
    nvrtc: Nvrtc,
    /// What special kernels include.
    headers: Vec<Source>,
    /// What was compiled, by its text.
    compiled: HashMap<String, Vec<u8>>,
}

impl Compiler {
    fn load() -> Result<Self, String> {
        let headers = specialised::headers().iter();
        let headers = headers.map(|(name, text)| Source::new(name, text.as_str()));
        let headers = headers.collect::<Result<_, _>>()?;
        Ok(Self { nvrtc: compiler::load()?, headers, compiled: HashMap::new() })
    }

    fn special(&mut self, name: &str, text: String) -> Result<Vec<u8>, String> {
        self.once(name, text, |compiler, text| {
            let main = Source::new("special.cu", text)?;
            let options = options(ARCHITECTURE);
            compiler.nvrtc.compile(&main, &compiler.headers, &options, Form::Machine)
        })
    }

    fn interpreter(&mut self, case: &Case) -> Result<Vec<u8>, String> {
        let name = format!("interpreter over {} of {}", case.protocol, case.data_type);
        self.once(&name, specialised::interpreter_source(case), |compiler, text| {
            let inputs = Sources::new(&kernels::read).entry("special.cu", text)?;
            kernels::compile(&compiler.nvrtc, &inputs, ARCHITECTURE)
        })
    }

    /// What `compile` makes of `text`, or has made of it.
    fn once(
        &mut self,
        name: &str,
        text: String,
        compile: impl Fn(&Self, &str) -> Result<Vec<u8>, String>,
    ) -> Result<Vec<u8>, String> {
        if let Some(bytes) = self.compiled.get(&text) {
            return Ok(bytes.clone());
        }
        let start = Instant::now();
        let bytes = compile(self, &text).map_err(|log| format!("{name}: {log}"))?;
        let took = start.elapsed().as_secs_f64();
        crate::say(&format!("{name}: {} bytes in {took:.1} s", bytes.len()));
        self.compiled.insert(text, bytes.clone());
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
    let of = |wanted: &CollectiveKind| algorithm.split('/').next() == Some(wanted.name());
    let wanted = CollectiveKind::all(Rank(ranks - 1)).into_iter().find(of);
    let wanted = wanted.ok_or_else(|| format!("`{algorithm}` is of no collective"))?;
    let entries = registry.built_in(wanted, CallPlacement::from_in_place(*in_place));
    let entry = entries.iter().find(|entry| entry.name == *algorithm);
    let entry = entry.ok_or_else(|| format!("no built-in algorithm serves `{case}`"))?;
    Plan::all(&entry.verified).map_err(|error| error.to_string())
}
