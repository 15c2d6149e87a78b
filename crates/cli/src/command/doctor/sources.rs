//! Where facts come from.

use std::path::{Path, PathBuf};

use msccl_doctor::facts::{GpuFacts, LimitFacts, SharedMemoryFacts};

/// A machine, as far as it is looked at. Tests prepare others.
pub trait Sources {
    /// The folder below which all absolute paths lie.
    fn root(&self) -> PathBuf;

    /// All variables, by name.
    fn variables(&self) -> Vec<(String, String)>;

    /// Driver and GPUs.
    fn gpus(&self) -> GpuFacts;

    /// The file system at `/dev/shm`, if there is one.
    fn shared_memory(&self) -> Option<SharedMemoryFacts>;

    /// What a process may use.
    fn limits(&self) -> LimitFacts;

    /// What a Python prints that is given `script`, if there is a Python, and it answers.
    fn ask_python(&self, script: &str) -> Option<String>;

    /// The folder of this command.
    fn own_folder(&self) -> Option<PathBuf>;

    /// Where the absolute `path` lies.
    fn place(&self, path: &str) -> PathBuf {
        self.root().join(path.trim_start_matches('/'))
    }

    /// The value of variable `name`; an empty one counts as not set.
    fn variable(&self, name: &str) -> Option<String> {
        let set = self.variables().into_iter().find(|(known, _)| known == name);
        set.map(|(_, value)| value).filter(|value| !value.is_empty())
    }

    /// The name of `place` as the machine has it.
    fn name(&self, place: &Path) -> String {
        let inside = place.strip_prefix(self.root());
        let name = inside.map_or_else(|_| place.to_owned(), |inside| Path::new("/").join(inside));
        name.to_string_lossy().into_owned()
    }
}
