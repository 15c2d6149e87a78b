//! The Python at hand: which packages it has, without loading any.

use msccl_doctor::facts::PythonFacts;
use serde::Deserialize;

use super::sources::Sources;

/// What Python is asked. Packages are looked up, not imported: PyTorch alone would take seconds.
const SCRIPT: &str = "
import importlib.metadata as m, json, os, sys
found = {'program': sys.executable, 'version': '.'.join(map(str, sys.version_info[:3]))}
def version(name):
    try:
        return m.version(name)
    except m.PackageNotFoundError:
        return None
found['torch'], found['msccl'] = version('torch'), version('msccl')
for name in ('nvidia-nccl-cu13', 'nvidia-nccl-cu12', 'nvidia-nccl-cu11'):
    try:
        package = m.distribution(name)
    except m.PackageNotFoundError:
        continue
    found['nccl'] = package.version
    files = [file for file in package.files or [] if '/lib/libnccl.so' in str(file)]
    found['nccl_paths'] = [os.path.abspath(package.locate_file(file)) for file in files]
    break
print(json.dumps(found))
";

/// What the Python said.
pub struct FoundPython {
    /// Its packages.
    pub facts: PythonFacts,
    /// Files of the package of NCCL.
    pub nccl_paths: Vec<String>,
}

#[derive(Deserialize)]
struct PackagesAnswer {
    program: String,
    version: String,
    torch: Option<String>,
    msccl: Option<String>,
    nccl: Option<String>,
    #[serde(default)]
    nccl_paths: Vec<String>,
}

/// Asks; `None` if there is no Python, or it does not answer.
pub fn ask(sources: &impl Sources) -> Option<FoundPython> {
    let answer = sources.ask_python(SCRIPT)?;
    let PackagesAnswer { program, version, torch, msccl, nccl, nccl_paths } =
        serde_json::from_str(&answer).ok()?;
    let facts = PythonFacts { program, version, torch, nccl, msccl };
    Some(FoundPython { facts, nccl_paths })
}
