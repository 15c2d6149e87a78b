//! The programs in `dsl-examples/` and the launches they ask to be tested with.

use std::fs;
use std::path::{Path, PathBuf};

use msccl_compiler::evaluate::{Launch, NoFiles, algorithms};
use msccl_compiler::{Compiled, compile};
use msccl_ir::Target;
use msccl_pages::example::launches;
use msccl_syntax::SourceMap;
use msccl_topology::cluster::format;
use msccl_topology::cluster::presets::preset;
use msccl_topology::cluster::ranks::RankTopology;

/// One file of `dsl-examples/`.
pub struct Example {
    /// Its path below `dsl-examples/`, without the extension.
    pub name: String,
    /// Its text.
    pub text: String,
    /// One for every algorithm in it and every size its `// test:` lines name.
    pub launches: Vec<Launch>,
}

impl Example {
    fn read(folder: &Path, path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let name = path.strip_prefix(folder).unwrap().with_extension("").display().to_string();
        let mut example = Self { name, text, launches: Vec::new() };
        for algorithm in example.algorithms() {
            let launches = launches(&example.text, &|name| Some(topology(name)));
            let launches = launches.unwrap_or_else(|why| panic!("{}: {why}", example.name));
            let named = launches
                .into_iter()
                .map(|launch| Launch { algorithm: Some(algorithm.clone()), ..launch });
            example.launches.extend(named.collect::<Vec<_>>());
        }
        example
    }

    /// The names of the algorithms in the file.
    pub fn algorithms(&self) -> Vec<String> {
        let mut sources = SourceMap::new();
        let file = sources.add(self.name.clone(), self.text.clone());
        let found = algorithms(&sources, file).unwrap();
        found.into_iter().map(|algorithm| algorithm.name).collect()
    }

    /// Whether the file says that it does not serve in-place calls.
    pub fn is_out_of_place_only(&self) -> bool {
        self.text.contains("\n// out of place only: ")
    }

    /// Whether the file says that it is for the native target alone.
    pub fn is_native_only(&self) -> bool {
        self.text.contains("\n// native target only: ")
    }

    /// What the compiler makes of it, or its diagnostics as a person reads them.
    pub fn compile(&self, launch: &Launch, target: &Target) -> Result<Compiled, String> {
        let mut sources = SourceMap::new();
        let file = sources.add(self.name.clone(), self.text.clone());
        compile(&mut sources, file, &NoFiles, launch, target)
            .map_err(|diagnostics| sources.render_all(&diagnostics))
    }
}

/// How the ranks of a preset are joined, or of a cluster in `docs/examples/clusters`.
fn topology(name: &str) -> RankTopology {
    let path = folder().join(format!("../docs/examples/clusters/{name}.cluster"));
    let read = || format::parse(&fs::read_to_string(path).unwrap()).unwrap();
    RankTopology::of(&preset(name).unwrap_or_else(read))
}

/// Where the examples are.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dsl-examples")
}

/// Every example, in the order of their paths.
pub fn examples() -> Vec<Example> {
    let root = folder();
    let files_of = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let folders = files_of(&root).into_iter().filter(|path| path.is_dir());
    let mut paths: Vec<_> = folders.flat_map(|folder| files_of(&folder)).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "msccl"));
    paths.sort();
    paths.iter().map(|path| Example::read(&root, path)).collect()
}
