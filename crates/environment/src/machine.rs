//! What this machine is made of: a description that somebody wrote, and what the kernel reports.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use msccl_topology::detect::{Files, detect};
use msccl_topology::{Topology, xml};

use super::{ValueError, Variable, files, variable};

/// Where virtual machines have their description, if somebody put one there.
const USUAL_FILE: &str = "/var/run/nvidia-topologyd/virtualTopology.xml";

/// The file system of this machine.
pub struct Root;

impl Files for Root {
    fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(Path::new("/").join(path)).ok()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(Path::new("/").join(path)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    fn resolve(&self, path: &str) -> Option<String> {
        let path = fs::canonicalize(Path::new("/").join(path)).ok()?;
        path.to_str()?.strip_prefix('/').map(str::to_owned)
    }
}

/// Descriptions of this machine, the best first: that of the file `named` (`NCCL_TOPO_FILE`), or of
/// the usual one if there is one; and what the kernel reports, which is found out once in the life
/// of the process. `report` gets the error of a file that cannot be used, and of the parts of the
/// file `named` that are not used.
pub fn topologies(named: Option<&str>, mut report: impl FnMut(ValueError)) -> Vec<Topology> {
    static DETECTED: OnceLock<Topology> = OnceLock::new();
    let path = named.or_else(|| Path::new(USUAL_FILE).exists().then_some(USUAL_FILE));
    let described = path.and_then(|path| match read(path) {
        Ok(xml::Read { system, notes }) => {
            named.and_then(|named| used_in_part(named, &notes)).into_iter().for_each(&mut report);
            Some(Topology::new(system))
        }
        Err(why) => {
            report(why);
            None
        }
    });
    let detected = DETECTED.get_or_init(|| Topology::new(detect(&Root, &[])));
    described.into_iter().chain([detected.clone()]).collect()
}

/// That `notes` were made of the file at `path`, if any were.
fn used_in_part<N: fmt::Display>(path: &str, notes: &[N]) -> Option<ValueError> {
    let (first, rest) = notes.split_first()?;
    let (Variable { name, .. }, more) = (variable::TOPO_FILE, and_more(rest.len()));
    Some(format!("{name} is used in part: {path}, {first}{more}"))
}

/// How many notes there are beside the first.
fn and_more(others: usize) -> String {
    match others {
        0 => String::new(),
        others => format!("; `msccl topo` shows {others} more notes"),
    }
}

/// Why the file `named` (`NCCL_TOPO_FILE`) cannot be used, or what of it is not, if so; whoever
/// finds no use for it would not look at it.
pub fn topology_error(named: &str) -> Option<ValueError> {
    read(named).map_or_else(Some, |xml::Read { system: _, notes }| used_in_part(named, &notes))
}

fn read(path: &str) -> Result<xml::Read, ValueError> {
    parse(path).map_err(|why| {
        let Variable { name, default, .. } = variable::TOPO_FILE;
        format!("{name} is not used: {path}{why} (default: {default})")
    })
}

fn parse(path: &str) -> Result<xml::Read, String> {
    let content = files::content(Path::new(path)).map_err(|why| format!(": {why}"))?;
    let text = String::from_utf8(content).map_err(|_| ": it is not UTF-8".to_owned())?;
    xml::read(&text).map_err(|error| format!(", {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_before_what_the_kernel_reports() {
        let name = format!("msccl-environment-{}.xml", std::process::id());
        let path = std::env::temp_dir().join(name);
        let path = path.to_str().unwrap();
        fs::write(path, "<system><cpu numaid=\"77\"/></system>").unwrap();
        let mut value_errors = Vec::new();
        let found = topologies(Some(path), |value_error| value_errors.push(value_error));
        assert_eq!((found.len(), found[0].system().cpus[0].numa), (2, 77));
        assert_eq!(value_errors, [""; 0]);
        let cpu = "<cpu numaid=\"77\" vendor=\"Cyrix\" arch=\"z80\"/>";
        fs::write(path, format!("<system>{cpu}</system>")).unwrap();
        let found = topologies(Some(path), |value_error| value_errors.push(value_error));
        assert_eq!((found.len(), found[0].system().cpus[0].numa), (2, 77));
        let known = topology_error(path);
        fs::write(path, "<system>").unwrap();
        let found = topologies(Some(path), |value_error| value_errors.push(value_error));
        assert_eq!(found.len(), 1);
        fs::remove_file(path).unwrap();
        assert_eq!(topologies(Some(path), |value_error| value_errors.push(value_error)).len(), 1);
        let [in_part, broken, missing] = &value_errors[..] else { panic!("{value_errors:?}") };
        assert!(in_part.starts_with("NCCL_TOPO_FILE is used in part: "), "{in_part}");
        assert_eq!(known, Some(in_part.clone()));
        assert!(in_part.ends_with("; `msccl topo` shows 1 more notes"), "{in_part}");
        assert!(broken.starts_with("NCCL_TOPO_FILE is not used: "), "{broken}");
        assert!(broken.contains(".xml, line 1, column 9: expected </system>"), "{broken}");
        assert!(missing.contains(": it cannot be read: "), "{missing}");
    }
}
