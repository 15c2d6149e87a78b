//! What the server asks of the program around it: files, machines, pictures.
//!
//! The server itself neither reads files nor knows the environment.

use std::path::{Path, PathBuf};

use msccl_topology::cluster::Cluster;

/// The machine around the server.
pub trait Host: Send + Sync {
    /// The one name of the file at a path, however it is reached: an absolute path.
    fn canonical_name(&self, path: &Path) -> String;

    /// The file that `importer` means by `path`: its canonical name and its text.
    ///
    /// # Errors
    ///
    /// Why it cannot be had.
    fn load(&self, importer: &str, path: &str) -> Result<(String, String), String>;

    /// The programs below a folder, by canonical name. Only some, where there are very many.
    fn programs(&self, folder: &Path) -> Vec<String>;

    /// A file that holds a module of the standard library, for editors to show. It may be a copy.
    fn module_file(&self, module: &str) -> Option<PathBuf>;

    /// The machine of that name or in that file, as `--topo` takes it.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be read.
    fn cluster(&self, what: &str) -> Result<Cluster, String>;

    /// When each step of an algorithm runs, as SVG, in a file that editors can show.
    ///
    /// # Errors
    ///
    /// It cannot be estimated, or the file cannot be written.
    fn timeline(&self, request: &TimelineRequest) -> Result<Picture, String>;
}

/// Of what a timeline is to be drawn.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TimelineRequest {
    /// The name of the program: its path.
    pub name: String,
    /// Its text, which may not be saved.
    pub text: String,
    /// The algorithm.
    pub algorithm: String,
    /// How many ranks take part, unless the program says.
    pub ranks: Option<u32>,
    /// Ranks on one node.
    pub per_node: Option<u32>,
    /// The machine, as `--topo` takes it.
    pub topology: Option<String>,
    /// Values of parameters.
    pub params: Vec<(String, i64)>,
}

/// A picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Picture {
    /// The picture.
    pub svg: String,
    /// The file that holds it.
    pub file: PathBuf,
}
