//! Which library is the plugin: by NCCL's rules.

use std::sync::OnceLock;

use msccl_environment::{ValueError, variable};

use super::plugin::{LoadError, Plugin};
use crate::log::{self, NO_DEVICE, Subsystem};

/// What is loaded where nobody names a plugin.
const USUAL: &str = "libnccl-profiler.so";

/// The name by which a program that is its own plugin says so.
const STATIC: &str = "STATIC_PLUGIN";

/// The plugin of this process, loaded by the first who asks, as `name` says then.
///
/// # Errors
///
/// A plugin is named and is not there; in words.
pub fn plugin(name: Option<&str>) -> Result<Option<&'static Plugin>, ValueError> {
    static PLUGIN: OnceLock<Result<Option<Plugin>, ValueError>> = OnceLock::new();
    let found = PLUGIN.get_or_init(|| find(name));
    found.as_ref().map(Option::as_ref).map_err(Clone::clone)
}

fn find(name: Option<&str>) -> Result<Option<Plugin>, ValueError> {
    if name.is_some_and(|name| name.eq_ignore_ascii_case("none")) {
        return Ok(None);
    }
    let mut missing = Vec::new();
    for file in candidates(name) {
        match Plugin::load(file.as_deref()) {
            Ok(plugin) => {
                let text = format_args!("profiler plugin {} is loaded", plugin.name());
                log::info(Subsystem::Init, NO_DEVICE, text);
                return Ok(Some(plugin));
            }
            Err(LoadError::NoInterface) => {
                let file = file.unwrap_or_else(|| "the program".to_owned());
                missing.push(format!("{file} has none of ncclProfiler_v6, _v5 and _v4"));
                break;
            }
            Err(LoadError::Missing(why)) => missing.push(why),
        }
    }
    let Some(name) = name else { return Ok(None) };
    let variable = variable::PROFILER_PLUGIN.name;
    let why = missing.join("; ");
    Err(format!("{variable}={name}: no profiler plugin is loaded, and calls go on: {why}"))
}

/// The files that are tried, in this order; nothing is the program itself.
fn candidates(name: Option<&str>) -> Vec<Option<String>> {
    let Some(name) = name else { return vec![Some(USUAL.to_owned())] };
    if name.eq_ignore_ascii_case(STATIC) {
        return vec![None];
    }
    let is_file = name.contains('/') || name.starts_with("lib") && name.ends_with(".so");
    let by_suffix = (!is_file).then(|| Some(format!("libnccl-profiler-{name}.so")));
    std::iter::once(Some(name.to_owned())).chain(by_suffix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tried_as_nccl_tries_them() {
        let tried = |name| {
            let files = candidates(name).into_iter();
            files.map(|file| file.unwrap_or_default()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(tried(None), "libnccl-profiler.so");
        assert_eq!(tried(Some("mine")), "mine libnccl-profiler-mine.so");
        assert_eq!(tried(Some("/opt/mine.so")), "/opt/mine.so");
        assert_eq!(tried(Some("libmine.so")), "libmine.so");
        assert_eq!(tried(Some("static_plugin")), "");
    }

    #[test]
    fn a_plugin_that_is_named_and_missing_is_reported() {
        let text = find(Some("no-such-plugin")).err().unwrap();
        let begin = "NCCL_PROFILER_PLUGIN=no-such-plugin: no profiler plugin is loaded";
        assert!(text.starts_with(begin) && text.lines().count() == 1, "{text}");
        assert!(find(Some("None")).is_ok_and(|plugin| plugin.is_none()));
    }
}
