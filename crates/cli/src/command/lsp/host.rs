//! The machine around the language server: files, clusters, pictures.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use msccl_compiler::evaluate::{Loader, standard_modules};
use msccl_lsp::{Host, Picture, TimelineRequest};
use msccl_pages::timeline::EstimateMachine;
use msccl_topology::cluster::Cluster;

use crate::args::{self, ClusterArgs, LaunchArgs, MachineArgs, Setting};
use crate::artifact;
use crate::command::show::timeline::render;
use crate::diagnose::Warning;
use crate::draw::RankFilter;
use crate::failure::{Failure, Result as Outcome};
use crate::input::Input;
use crate::loader::FileSystem;
use crate::subject;

/// Most programs of a folder that are looked at.
const MOST_PROGRAMS: usize = 2000;

/// Most folders within folders.
const DEEPEST: usize = 12;

/// Files as the command reads them.
pub struct EditorHost {
    /// Where copies of modules and pictures are written, made once; nothing if that fails.
    folder: OnceLock<Option<PathBuf>>,
}

impl EditorHost {
    /// A host that has written nothing yet.
    pub fn new() -> Self {
        Self { folder: OnceLock::new() }
    }

    /// The folder for copies and pictures.
    fn folder(&self) -> Option<&Path> {
        self.folder.get_or_init(made_folder).as_deref()
    }
}

impl Host for EditorHost {
    fn canonical_name(&self, path: &Path) -> String {
        canonical_name(path)
    }

    fn load(&self, importer: &str, path: &str) -> Result<(String, String), String> {
        let (name, text) = FileSystem.load(importer, path)?;
        Ok((canonical_name(Path::new(&name)), text))
    }

    fn programs(&self, folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        programs_in(folder, DEEPEST, &mut found);
        found
    }

    fn module_file(&self, module: &str) -> Option<PathBuf> {
        let file = self.folder()?.join("std").join(format!("{module}.msccl"));
        file.is_file().then_some(file)
    }

    fn cluster(&self, what: &str) -> Result<Cluster, String> {
        let found = machine(what).cluster_warning(&mut |_: Warning| {});
        let found = found.map_err(|error| error.to_string())?;
        found.ok_or_else(|| format!("there is no machine `{what}`"))
    }

    fn timeline(&self, request: &TimelineRequest) -> Result<Picture, String> {
        let svg = drawn(request).map_err(|error| error.to_string())?;
        let folder = self.folder().ok_or("there is no folder for pictures: set XDG_CACHE_HOME")?;
        let file = folder.join(format!("timeline-{}.svg", request.algorithm));
        artifact::write_text(&file, &svg).map_err(|error| error.to_string())?;
        Ok(Picture { svg, file })
    }
}

/// The one name of a file: its canonical path, also if it does not exist yet.
fn canonical_name(path: &Path) -> String {
    let known = path.canonicalize().ok().or_else(|| {
        let folder = path.parent()?.canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    });
    known.as_deref().unwrap_or(path).to_string_lossy().into_owned()
}

fn programs_in(folder: &Path, depth: usize, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        let is_hidden = name.to_string_lossy().starts_with('.') || name == "target";
        if found.len() >= MOST_PROGRAMS {
            return;
        }
        if kind.is_dir() && !is_hidden && depth > 0 {
            programs_in(&path, depth - 1, found);
        } else if kind.is_file() && path.extension().is_some_and(|it| it == "msccl") {
            found.push(canonical_name(&path));
        }
    }
}

/// A folder of this user's, with the standard library in it.
fn made_folder() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME");
    let cache = cache.or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    let folder = cache.join("msccl").join("editor").join(env!("CARGO_PKG_VERSION"));
    fs::create_dir_all(folder.join("std")).ok()?;
    for module in standard_modules() {
        let file = folder.join("std").join(format!("{}.msccl", module.name));
        let is_there = fs::read(&file).is_ok_and(|text| text == module.text.as_bytes());
        if !is_there {
            artifact::write_text(&file, module.text).ok()?;
        }
    }
    Some(folder)
}

fn machine(what: &str) -> ClusterArgs {
    let machine = MachineArgs { topo: Some(what.to_owned()), ..MachineArgs::default() };
    ClusterArgs { machine, nodes: None }
}

/// The timeline that `msccl show --stage timeline` draws.
fn drawn(request: &TimelineRequest) -> Outcome<String> {
    let TimelineRequest { name, text, algorithm, ranks, per_node, topology, params } = request;
    let define = params.iter().map(|(name, value)| Setting { name: name.clone(), value: *value });
    let cluster = topology.as_deref().map(machine).unwrap_or_default();
    let launch = LaunchArgs {
        define: define.collect(),
        ranks: *ranks,
        per_node: *per_node,
        algorithm: Some(algorithm.clone()),
        cluster,
        ..LaunchArgs::default()
    };
    let input = Input { name: name.clone(), text: text.clone() };
    let warn = &mut |_: Warning| {};
    let machine =
        EstimateMachine { cluster: launch.cluster.cluster_warning(warn)?, calibration: None };
    let loaded = subject::load(input, &launch, None, warn)?;
    let subject = loaded.map_err(|_| {
        Failure::new(format!("{algorithm}: it is not right yet; its diagnostics say why"))
    })?;
    render(&subject, machine, None, args::Picture::Svg, &RankFilter::new(&[]))
}
