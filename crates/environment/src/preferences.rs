//! What every front end reads from the environment: which algorithms are available, which of them
//! to use, and where.

use std::sync::Arc;

use msccl_registry::{File, built_in_programs};
use msccl_select::{KernelCache, Links, Overrides, Specialisation, SpecialiseMode, Tuning};

use super::budget::Budget;
use super::kernels::Folder;
use super::restrictions::{Restrictions, Unsupported, restrict};
use super::{Reader, ValueError, Variable, files, of_process, tuning, variable};

/// Where ranks should run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DevicePreference {
    /// On a GPU if there is one.
    #[default]
    Any,
    /// On the host.
    Host,
    /// On a GPU.
    Cuda,
}

/// What a user prefers.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Preferences {
    /// Where ranks run.
    pub device: DevicePreference,
    /// What is used where it serves; with `budget`.
    pub overrides: Overrides,
    /// How much of a GPU calls may have.
    pub budget: Budget,
    /// Why reductions must have one order, if no variable of ours says so.
    pub order_reason: Option<String>,
    /// Values that make sense and are not followed.
    pub unsupported: Vec<Unsupported>,
    xml_files: Option<String>,
    algo_dir: Option<String>,
    tuning: Option<String>,
    low_latency: Option<bool>,
    specialised: SpecialiseMode,
    kernel_cache: Option<String>,
    nvrtc: Option<String>,
}

impl Preferences {
    /// What the variables of `reader` say.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let budget = Budget::read(reader);
        let mut overrides = overrides(reader, budget);
        let xml_files = reader.text(&variable::XML_FILES);
        let algo_dir = reader.text(&variable::ALGO_DIR);
        if let Some(value_error) = nobody_has(&overrides, xml_files.as_deref(), algo_dir.as_deref())
        {
            reader.report(value_error);
        }
        let Restrictions { unsupported, order_reason } = restrict(&mut overrides, reader);
        Self {
            device: reader.parse(&variable::DEVICE, DevicePreference::parse).unwrap_or_default(),
            unsupported,
            overrides,
            budget,
            order_reason,
            xml_files,
            algo_dir,
            tuning: reader.text(&variable::TUNING),
            low_latency: reader.flag(&variable::LOW_LATENCY),
            specialised: reader.parse(&variable::SPECIALISED, specialised).unwrap_or_default(),
            kernel_cache: reader.text(&variable::KERNEL_CACHE),
            nvrtc: reader.text(&variable::NVRTC),
        }
    }

    /// Whether low-latency kernels are used.
    pub fn low_latency(&self) -> bool {
        self.low_latency.unwrap_or(true)
    }

    /// Whether specialised kernels are used, and where they come from.
    pub fn specialised(&self) -> Specialisation {
        let folder = Folder::of(self.kernel_cache.as_deref(), &of_process);
        Specialisation {
            mode: self.specialised,
            cache: folder.map(|folder| Arc::new(folder) as Arc<dyn KernelCache>),
            compiler: self.nvrtc.clone(),
        }
    }

    /// Why the folder of specialised kernels that the user named is not used: others can write to
    /// it.
    pub fn kernel_cache_error(&self) -> Option<ValueError> {
        let named =
            self.kernel_cache.as_deref().filter(|_| self.specialised != SpecialiseMode::Never);
        let why = Folder::of(Some(named?), &of_process)?.is_unsafe()?;
        let Variable { name, .. } = variable::KERNEL_CACHE;
        Some(format!("{name} is not used: {why}"))
    }

    /// The algorithm files that are named, read now.
    pub fn files(&self) -> Vec<File> {
        files::read(self.xml_files.as_deref(), self.algo_dir.as_deref())
    }

    /// The tuning table that is named, read now.
    ///
    /// # Errors
    ///
    /// It cannot be used, and counts as not set.
    pub fn tuning(&self) -> Result<Option<Tuning>, ValueError> {
        let tuning = self.tuning.as_deref().map(tuning::read).transpose();
        tuning.map_err(|why| {
            let Variable { name, default, .. } = variable::TUNING;
            format!("{name} is not used: {why} (default: {default})")
        })
    }
}

impl DevicePreference {
    fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "host" => Some(Self::Host),
            "cuda" => Some(Self::Cuda),
            _ => None,
        }
    }
}

fn overrides(reader: &mut Reader<'_>, budget: Budget) -> Overrides {
    let Budget { blocks_max, cta_policy } = budget;
    Overrides {
        blocks_max,
        cta_policy: cta_policy.unwrap_or_default(),
        algorithm: reader.text(&variable::ALGO),
        protocol: reader.parse(&variable::PROTO, |text| text.parse().ok()),
        links: reader.parse(&variable::DIRECT, links).flatten(),
        instances: reader.count(&variable::INSTANCES),
        threads: reader.count(&variable::THREADS),
        ..Overrides::default()
    }
}

/// That no algorithm has the name that is requested, if so. The override is kept: it does no harm,
/// and a front end may load files that are not named here.
fn nobody_has(
    overrides: &Overrides,
    xml_files: Option<&str>,
    algo_dir: Option<&str>,
) -> Option<ValueError> {
    let requested = overrides.algorithm.as_deref()?;
    let built_in = built_in_programs();
    let in_folder = || {
        algo_dir.is_some_and(|folder| files::names(folder).iter().any(|of| of.contains(requested)))
    };
    let is_available = built_in.keys().any(|name| name.contains(requested))
        || xml_files.is_some_and(|files| files.contains(requested))
        || in_folder();
    if is_available {
        return None;
    }
    let (name, files, folder) =
        (variable::ALGO.name, variable::XML_FILES.name, variable::ALGO_DIR.name);
    let text = format!(
        "{name} is `{requested}`, which is in the name of no built-in algorithm and of no file of \
         {files} or {folder}"
    );
    let last = |name: &&'static str| name.rsplit_once('/').map_or(*name, |(_, last)| last);
    let names = built_in.keys().copied().chain(built_in.keys().map(last));
    let near = variable::nearest_of(requested, names);
    Some(near.map_or_else(|| text.clone(), |near| format!("{text}; did you mean {near}?")))
}

fn specialised(text: &str) -> Option<SpecialiseMode> {
    match text {
        "0" => Some(SpecialiseMode::Never),
        "1" => Some(SpecialiseMode::Cached),
        "2" => Some(SpecialiseMode::Compiled),
        _ => None,
    }
}

/// Leaves links to tables.
const AS_TABLES_SAY: &str = "1";

/// The links that `text` requests, or none in particular.
fn links(text: &str) -> Option<Option<Links>> {
    let named = Links::ALL.into_iter().find(|links| requested(*links) == Some(text));
    named.map(Some).or((text == AS_TABLES_SAY).then_some(None))
}

/// The value that requests `links` in all calls of kernels.
fn requested(links: Links) -> Option<&'static str> {
    match links {
        Links::Staged => Some("0"),
        Links::Direct => Some("2"),
        // They are asked for by how many multiprocessors may be used.
        Links::CopyEngine => None,
    }
}

#[cfg(test)]
mod tests {
    use msccl_collective::Protocol;

    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], value_errors: usize) -> Preferences {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut reader = Reader::new(&lookup);
        let preferences = Preferences::read(&mut reader);
        let reported = reader.value_errors();
        assert_eq!(reported.len(), value_errors, "{variables:?}: {reported:?}");
        preferences
    }

    #[test]
    fn nothing_is_preferred_unless_it_is_said() {
        let nothing = check(&[], 0);
        assert_eq!(nothing, Preferences::default());
        assert_eq!(nothing.device, DevicePreference::Any);
        assert!(nothing.files().is_empty());
    }

    #[test]
    fn everything_that_is_said_is_preferred() {
        let preferences = check(
            &[
                ("MSCCL_DEVICE", "HOST"),
                ("MSCCL_ALGO", "ring"),
                ("MSCCL_PROTO", "LL128"),
                ("MSCCL_DIRECT", "2"),
                ("MSCCL_INSTANCES", "4"),
                ("MSCCL_THREADS", "512"),
                ("MSCCL_XML_FILES", "a.xml"),
                ("MSCCL_ALGO_DIR", "algorithms"),
                ("MSCCL_TUNING", "site.tuning"),
                ("MSCCL_SPECIALISED", "2"),
                ("MSCCL_KERNEL_CACHE", "/shared/kernels"),
                ("MSCCL_NVRTC", "/cuda/libnvrtc.so.12"),
            ],
            0,
        );
        let Specialisation { mode, cache, compiler } = preferences.specialised();
        assert_eq!(mode, SpecialiseMode::Compiled);
        assert_eq!(cache.map(|cache| cache.place()).as_deref(), Some("/shared/kernels"));
        assert_eq!(compiler.as_deref(), Some("/cuda/libnvrtc.so.12"));
        let Preferences { device, overrides, xml_files, algo_dir, tuning, .. } = preferences;
        assert_eq!(device, DevicePreference::Host);
        let (protocol, links) = (Some(Protocol::Ll128), Some(Links::Direct));
        let (instances, threads) = (Some(4), Some(512));
        let algorithm = Some("ring".into());
        let expected =
            Overrides { algorithm, protocol, links, instances, threads, ..Overrides::default() };
        assert_eq!(overrides, expected);
        let named = (xml_files.as_deref(), algo_dir.as_deref());
        assert_eq!(named, (Some("a.xml"), Some("algorithms")));
        assert_eq!(tuning.as_deref(), Some("site.tuning"));
    }

    #[test]
    fn an_algorithm_that_nobody_knows_is_reported() {
        let requested = |variables: &[(&str, &str)], value_errors| {
            let all: Vec<_> = [("MSCCL_ALGO", "mine")].iter().chain(variables).copied().collect();
            assert_eq!(check(&all, value_errors).overrides.algorithm.as_deref(), Some("mine"));
        };
        requested(&[], 1);
        requested(&[("MSCCL_XML_FILES", "yours.xml")], 1);
        requested(&[("MSCCL_XML_FILES", "yours.xml:/site/mine.xml")], 0);
        requested(&[("MSCCL_ALGO_DIR", "/no/such/folder")], 1);
        let folder =
            std::env::temp_dir().join(format!("msccl-environment-named-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("mine.json"), "{}").unwrap();
        requested(&[("MSCCL_ALGO_DIR", folder.to_str().unwrap())], 0);
        std::fs::remove_dir_all(folder).unwrap();
        let value_error = |requested: &str| {
            let overrides =
                Overrides { algorithm: Some(requested.to_owned()), ..Overrides::default() };
            nobody_has(&overrides, None, None).unwrap_or_default()
        };
        assert!(value_error("alreduce/ring").ends_with("; did you mean allreduce/ring?"));
        assert!(value_error("twoshot").ends_with("; did you mean two_shot?"));
        assert!(value_error("weather").ends_with(" or MSCCL_ALGO_DIR"));
    }

    #[test]
    fn our_variables_win_over_those_of_nccl() {
        let theirs = [
            ("NCCL_ALGO", "ring"),
            ("NCCL_PROTO", "^LL128"),
            ("NCCL_NTHREADS", "256"),
            ("NCCL_MIN_CTAS", "4"),
        ];
        let Preferences { overrides, unsupported, .. } = check(&theirs, 0);
        assert_eq!(
            (overrides.families.to_string(), overrides.protocols.to_string()),
            ("ring".into(), "Simple,LL".into())
        );
        assert_eq!((overrides.threads_max, unsupported.len()), (Some(256), 1));
        let ours = [
            ("MSCCL_ALGO", "tree"),
            ("MSCCL_PROTO", "LL128"),
            ("MSCCL_THREADS", "512"),
            ("MSCCL_INSTANCES", "2"),
        ];
        assert_eq!(check(&[theirs, ours].concat(), 0), check(&ours, 0));
    }

    #[test]
    fn links_are_requested_by_number() {
        let requested = |text| check(&[("MSCCL_DIRECT", text)], 0).overrides.links;
        let expected = [Some(Links::Staged), None, Some(Links::Direct)];
        assert_eq!(["0", AS_TABLES_SAY, "2"].map(requested), expected);
        assert!([Links::Staged, Links::Direct].into_iter().all(|links| {
            super::requested(links).is_some_and(|text| requested(text) == Some(links))
        }));
    }

    #[test]
    fn nonsense_counts_as_not_set() {
        let nonsense = [
            ("MSCCL_DEVICE", "tpu"),
            ("MSCCL_PROTO", "LL256"),
            ("MSCCL_INSTANCES", "0"),
            ("MSCCL_THREADS", "many"),
            ("MSCCL_DIRECT", "always"),
            ("MSCCL_SPECIALISED", "3"),
        ];
        assert_eq!(check(&nonsense, 6), Preferences::default());
        assert_eq!(check(&[("MSCCL_ALGO", ""), ("MSCCL_DEVICE", "")], 0), Preferences::default());
    }

    #[test]
    fn a_folder_of_kernels_that_others_can_write_to_is_one_error() {
        use std::os::unix::fs::PermissionsExt;
        let folder = format!("msccl-environment-open-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        let value_error = |mode: u32, specialised: &str| {
            std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
            let named = [
                ("MSCCL_KERNEL_CACHE", folder.to_str().unwrap()),
                ("MSCCL_SPECIALISED", specialised),
            ];
            check(&named, 0).kernel_cache_error()
        };
        assert_eq!(value_error(0o755, "1"), None);
        let expected = format!(
            "MSCCL_KERNEL_CACHE is not used: {} can be written by others: its mode is 0777, \
             expected no w for group and others",
            folder.display()
        );
        assert_eq!(value_error(0o777, "1"), Some(expected));
        assert_eq!(value_error(0o777, "0"), None);
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(error_of_missing(&folder), None);
    }

    fn error_of_missing(folder: &std::path::Path) -> Option<ValueError> {
        check(&[("MSCCL_KERNEL_CACHE", folder.to_str().unwrap())], 0).kernel_cache_error()
    }

    #[test]
    fn files_that_are_not_there_stay_in_the_list() {
        let variables = [("MSCCL_XML_FILES", ":/no/a.xml::/no/b.xml"), ("MSCCL_ALGO_DIR", "/no")];
        let files = check(&variables, 0).files();
        let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["/no/a.xml", "/no/b.xml", "/no"]);
        assert!(files.iter().all(|file| file.content.is_err()), "{files:?}");
    }

    #[test]
    fn a_table_that_cannot_be_used_is_one_error() {
        assert_eq!(check(&[], 0).tuning(), Ok(None));
        let value_error = check(&[("MSCCL_TUNING", "/no/site.tuning")], 0).tuning().unwrap_err();
        let expected = "MSCCL_TUNING is not used: /no/site.tuning: it cannot be read: ";
        assert!(value_error.starts_with(expected), "{value_error}");
        assert!(value_error.ends_with("(default: the table that comes with the library)"));
    }
}
