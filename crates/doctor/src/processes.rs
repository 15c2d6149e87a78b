//! What is said of Python, and of the library that processes load.

use std::collections::BTreeMap;

use crate::facts::{
    FoundBy, GpuFacts, LibraryFile, LibraryKind, LoadedLibrary, ProcessFacts, PythonFacts,
};
use crate::finding::{Finding, Severity, Topic};
use crate::library::HOW_TO_GET;

/// How to make a program use this library.
const LAUNCH: &str =
    "start the program with `msccl launch -- PROGRAM …`, or a script with `python -m msccl.run`";

/// The version of NCCL whose interface this library has.
const NCCL_INTERFACE: &str = "2.30.7";

pub(crate) fn python(facts: Option<&PythonFacts>, gpus: &GpuFacts) -> Vec<Finding> {
    let Some(PythonFacts { program, version, torch, nccl, msccl }) = facts else {
        let message = "no Python is on the path; nothing is known of PyTorch";
        return vec![Finding::new(Severity::Note, Topic::Python, message)];
    };
    let of = |name: &str, version: &Option<String>| {
        version.as_ref().map_or_else(|| format!("no {name}"), |version| format!("{name} {version}"))
    };
    let parts = [of("PyTorch", torch), of("NCCL package", nccl), of("msccl package", msccl)];
    let message = format!("Python {version} ({program}) has {}", parts.join(", "));
    let mut findings = vec![Finding::new(Severity::Good, Topic::Python, message)];
    findings.extend(torch.as_deref().and_then(|torch| without_cuda(torch, gpus)));
    findings.extend(nccl.as_deref().and_then(newer));
    findings
}

fn without_cuda(torch: &str, gpus: &GpuFacts) -> Option<Finding> {
    let is_usable = matches!(gpus, GpuFacts::Usable { .. });
    (torch.contains("+cpu") && is_usable).then(|| {
        let message = format!("PyTorch {torch} was built without CUDA: it uses no GPU and no NCCL");
        let finding = Finding::new(Severity::Fails, Topic::Python, message);
        finding.advise("install a build with CUDA, as pytorch.org says")
    })
}

fn newer(nccl: &str) -> Option<Finding> {
    let parts = |version: &str| -> Vec<u32> {
        version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
    };
    (parts(nccl) > parts(NCCL_INTERFACE)).then(|| {
        let message = format!(
            "PyTorch comes with NCCL {nccl}, this library has the interface of {NCCL_INTERFACE}: \
             functions of later versions are refused"
        );
        let finding = Finding::new(Severity::Note, Topic::Python, message);
        finding.advise("`docs/NCCL.md` says what is not there")
    })
}

pub(crate) fn libraries(libraries: &[LibraryFile], python: Option<&PythonFacts>) -> Vec<Finding> {
    let mut findings: Vec<_> = libraries.iter().filter_map(missing).collect();
    let has_torch = python.is_some_and(|python| python.torch.is_some());
    let order: &[FoundBy] = if has_torch { &OF_TORCH } else { &OF_PROGRAMS };
    let who = if has_torch { "PyTorch" } else { "a program that needs libnccl.so.2" };
    findings.push(first(libraries, order, who));
    findings.extend(of_commands(libraries));
    findings.extend(by_path(libraries, order));
    findings.extend(copies(libraries));
    findings
}

/// Where PyTorch looks: its own path wins over the variable.
const OF_TORCH: [FoundBy; 4] =
    [FoundBy::Preload, FoundBy::NcclPackage, FoundBy::LibraryPath, FoundBy::System];
/// Where other programs look.
const OF_PROGRAMS: [FoundBy; 3] = [FoundBy::Preload, FoundBy::LibraryPath, FoundBy::System];

fn is_library(file: &LibraryFile) -> bool {
    match file.kind {
        LibraryKind::Msccl | LibraryKind::OtherNccl => true,
        LibraryKind::Unknown | LibraryKind::Missing => false,
    }
}

/// The file that a loader takes.
fn taken<'a>(libraries: &'a [LibraryFile], order: &[FoundBy]) -> Option<&'a LibraryFile> {
    let of = |by: &FoundBy| libraries.iter().find(|it| it.found_by == *by && is_library(it));
    order.iter().find_map(of)
}

fn first(libraries: &[LibraryFile], order: &[FoundBy], who: &str) -> Finding {
    match taken(libraries, order) {
        None => {
            let message = format!("{who} finds no libnccl.so.2 as things are set");
            Finding::new(Severity::Note, Topic::Library, message).advise(LAUNCH)
        }
        Some(LibraryFile { path, found_by, kind: LibraryKind::Msccl, .. }) => {
            let message = format!("{who} loads this library: {path}, {}", reason(*found_by));
            Finding::new(Severity::Good, Topic::Library, message)
        }
        Some(LibraryFile { path, found_by, .. }) => {
            let message = format!(
                "the wrong library is loaded: {who} loads {path}, {}, which is not msccl",
                reason(*found_by)
            );
            Finding::new(Severity::Fails, Topic::Library, message).advise(LAUNCH)
        }
    }
}

/// The library of commands that need one; nothing if that is missing, which is said elsewhere.
fn of_commands(libraries: &[LibraryFile]) -> Option<Finding> {
    let who = "`msccl launch`, `bench`, `tune`, `calibrate`";
    let is_of_commands = |file: &&LibraryFile| match file.found_by {
        FoundBy::Named | FoundBy::Own => true,
        FoundBy::Preload
        | FoundBy::NcclPackage
        | FoundBy::LibraryPath
        | FoundBy::System
        | FoundBy::Vllm
        | FoundBy::Sglang => false,
    };
    let Some(file) = libraries.iter().find(is_of_commands) else {
        let message = format!("{who} need a library, and none comes with this command");
        let ours = libraries.iter().find(|file| file.kind == LibraryKind::Msccl);
        let advice = ours.map(|file| format!("set MSCCL_LIBRARY={}", file.path));
        let finding = Finding::new(Severity::Note, Topic::Library, message);
        return Some(finding.advise(advice.unwrap_or_else(|| HOW_TO_GET.to_owned())));
    };
    let taken = format!("{who} take {}, {}", file.path, reason(file.found_by));
    match file.kind {
        LibraryKind::Msccl | LibraryKind::OtherNccl => {
            Some(Finding::new(Severity::Good, Topic::Library, taken))
        }
        LibraryKind::Unknown => {
            let message = format!("{taken}; expected a library with NCCL's interface");
            Some(Finding::new(Severity::Fails, Topic::Library, message).advise(HOW_TO_GET))
        }
        LibraryKind::Missing => None,
    }
}

fn reason(found_by: FoundBy) -> &'static str {
    match found_by {
        FoundBy::Preload => "which LD_PRELOAD names",
        FoundBy::NcclPackage => "that of the package nvidia-nccl, before LD_LIBRARY_PATH",
        FoundBy::LibraryPath => "from LD_LIBRARY_PATH",
        FoundBy::System => "from a folder of the system",
        FoundBy::Vllm => "which VLLM_NCCL_SO_PATH names",
        FoundBy::Sglang => "which SGLANG_NCCL_SO_PATH names",
        FoundBy::Named => "which MSCCL_LIBRARY names",
        FoundBy::Own => "which comes with this command",
    }
}

fn missing(file: &LibraryFile) -> Option<Finding> {
    let LibraryFile { path, real_path: _, found_by, kind } = file;
    (*kind == LibraryKind::Missing).then(|| {
        let message = format!("{path}, {}, cannot be read", reason(*found_by));
        let finding = Finding::new(Severity::Fails, Topic::Library, message);
        finding.advise("correct the path; the loader goes on without the file, or the program ends")
    })
}

/// Two libraries in one process: one that the loader takes, and one that a program opens by path.
fn by_path(libraries: &[LibraryFile], order: &[FoundBy]) -> Vec<Finding> {
    let Some(taken) = taken(libraries, order) else { return Vec::new() };
    let opened = libraries.iter().filter(|file| is_library(file)).filter(|file| {
        matches!(file.found_by, FoundBy::Vllm | FoundBy::Sglang)
            && file.real_path != taken.real_path
    });
    let finding = |file: &LibraryFile| {
        let message = format!(
            "one process has two libraries: {}, {}, and {}, {}; their communicators know nothing \
             of one another",
            taken.path,
            reason(taken.found_by),
            file.path,
            reason(file.found_by)
        );
        Finding::new(Severity::Fails, Topic::TwoLibraries, message)
            .advise("let both name one file: preload it, and give its path to the variable")
    };
    opened.map(finding).collect()
}

/// Several copies of this library, of which processes may load different ones.
fn copies(libraries: &[LibraryFile]) -> Option<Finding> {
    let ours = libraries.iter().filter(|file| file.kind == LibraryKind::Msccl);
    let files: BTreeMap<&str, &LibraryFile> =
        ours.rev().map(|file| (file.real_path.as_str(), file)).collect();
    (files.len() > 1).then(|| {
        let places: Vec<_> = files
            .values()
            .map(|file| format!("{} ({})", file.path, reason(file.found_by)))
            .collect();
        let message = format!(
            "there are {} copies of this library: {}. Ranks that load different ones may refuse \
             one another",
            files.len(),
            places.join(", ")
        );
        Finding::new(Severity::Note, Topic::TwoLibraries, message)
            .advise("keep one, and let LD_PRELOAD or LD_LIBRARY_PATH name it on all hosts")
    })
}

/// What a running process has loaded.
pub(crate) fn running(process: &ProcessFacts) -> Finding {
    let ProcessFacts { pid, preloads_ours, loaded } = process;
    let of = |severity, topic, message: String| {
        Finding::new(severity, topic, format!("process {pid} {message}"))
    };
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(why) => return of(Severity::Note, Topic::Library, format!("is not known: {why}")),
    };
    match &loaded[..] {
        [] => of(Severity::Note, Topic::Library, "has loaded no libnccl so far".to_owned()),
        [LoadedLibrary { path, kind: LibraryKind::Msccl }] => {
            of(Severity::Good, Topic::Library, format!("has loaded this library: {path}"))
        }
        [LoadedLibrary { path, kind: _ }] => {
            let message = format!("has loaded the wrong library: {path} is not msccl");
            of(Severity::Fails, Topic::Library, message).advise(LAUNCH)
        }
        several => {
            let paths: Vec<_> = several.iter().map(|it| it.path.as_str()).collect();
            let paths = paths.join(", ");
            if *preloads_ours {
                let message = format!("uses this library, which was preloaded; loaded: {paths}");
                return of(Severity::Good, Topic::Library, message);
            }
            let message = format!(
                "has loaded {} libraries with NCCL's interface: {paths}. Which of them is used \
                 cannot be seen from outside",
                several.len()
            );
            of(Severity::Note, Topic::TwoLibraries, message).advise(
                "ask within the process with `msccl.status()`; PyTorch from 2.15 on maps the file \
                 of its package beside the one that it uses",
            )
        }
    }
}
