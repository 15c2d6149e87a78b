//! Names that variables had in earlier versions.
//!
//! A variable that is not set by its name is read by its older name. If both are set, the name
//! counts; if to different values, that is a [`ValueError`]. The older name is known, so it is no
//! misspelling; [`in_use`] says which name to use instead.

use super::{Lookup, ValueError};

/// Older names, each with the name of today.
const RENAMED: [(&str, &str); 5] = [
    ("MSCCL_AT_ONCE", "MSCCL_PREFETCH"),
    ("MSCCL_EARLY_START", "MSCCL_PDL"),
    ("MSCCL_SMALL", "MSCCL_LOW_LATENCY"),
    ("MSCCL_SPECIAL", "MSCCL_SPECIALISED"),
    ("MSCCL_STORY_SIGNAL", "MSCCL_REPORT_SIGNAL"),
];

/// What a variable is set to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Setting {
    /// The name by which it is set.
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// The name that variable `name` had in earlier versions, if it had one.
pub(crate) fn older_name(name: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(_, renamed)| *renamed == name).map(|(older, _)| *older)
}

/// Whether a variable once had this name.
pub(crate) fn is_older_name(name: &str) -> bool {
    RENAMED.iter().any(|(older, _)| *older == name)
}

/// What variable `name` is set to, by this name or else by its older name.
pub(crate) fn setting(name: &'static str, lookup: Lookup<'_>) -> Option<Setting> {
    let names = [Some(name), older_name(name)];
    names.into_iter().flatten().find_map(|name| set(name, lookup))
}

/// That variable `name` is set by both of its names, to different values.
pub(crate) fn conflict(name: &'static str, lookup: Lookup<'_>) -> Option<ValueError> {
    let Setting { name, text } = set(name, lookup)?;
    let older = set(older_name(name)?, lookup).filter(|older| older.text != text)?;
    let Setting { name: older, text: ignored } = older;
    Some(format!(
        "{older} is `{ignored}`, expected `{text}` as in {name}, of which it is the older name; \
         {name} counts: unset {older}"
    ))
}

/// A line for each older name that is set, with the name to use instead.
pub fn in_use(lookup: Lookup<'_>) -> Vec<String> {
    let used = RENAMED.iter().filter_map(|(older, name)| {
        let Setting { name: older, text: _ } = set(older, lookup)?;
        Some(format!("{older} is the older name of {name}; it still works, but set {name} instead"))
    });
    used.collect()
}

fn set(name: &'static str, lookup: Lookup<'_>) -> Option<Setting> {
    lookup(name).filter(|text| !text.is_empty()).map(|text| Setting { name, text })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reader, Variable, variable};

    /// What flag `variable` is with these settings, and what is wrong with them.
    fn read(variable: &Variable, settings: &[(&str, &str)]) -> (Option<bool>, Vec<ValueError>) {
        let lookup = |name: &str| {
            let found = settings.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let mut reader = Reader::new(&lookup);
        (reader.flag(variable), reader.value_errors())
    }

    #[track_caller]
    fn check(older: &str, variable: &Variable) {
        let name = variable.name;
        assert_eq!(older_name(name), Some(older));
        assert!(is_older_name(older) && variable::is_known(name));
        assert_eq!(read(variable, &[(older, "0")]), (Some(false), vec![]));
        assert_eq!(read(variable, &[(older, "1")]), (Some(true), vec![]));
        assert_eq!(read(variable, &[(older, "0"), (name, "")]), (Some(false), vec![]));
        assert_eq!(read(variable, &[(older, "1"), (name, "1")]), (Some(true), vec![]));
        let conflict = format!(
            "{older} is `1`, expected `0` as in {name}, of which it is the older name; {name} \
             counts: unset {older}"
        );
        assert_eq!(read(variable, &[(older, "1"), (name, "0")]), (Some(false), vec![conflict]));
        let (value, errors) = read(variable, &[(older, "soon")]);
        assert_eq!(value, None);
        assert!(errors[0].starts_with(&format!("{older} is `soon`, expected ")), "{errors:?}");
        let advice =
            format!("{older} is the older name of {name}; it still works, but set {name} instead");
        assert_eq!(in_use(&|name| (name == older).then(|| "0".to_owned())), [advice]);
        assert_eq!(in_use(&|found| (found == name).then(|| "0".to_owned())), [""; 0]);
    }

    #[test]
    fn the_older_name_of_the_report_signal_works() {
        check("MSCCL_STORY_SIGNAL", &variable::REPORT_SIGNAL);
    }

    #[test]
    fn the_older_name_of_low_latency_kernels_works() {
        check("MSCCL_SMALL", &variable::LOW_LATENCY);
    }

    #[test]
    fn the_older_name_of_specialised_kernels_works() {
        check("MSCCL_SPECIAL", &variable::SPECIALISED);
    }

    #[test]
    fn the_older_name_of_dependent_launches_works() {
        check("MSCCL_EARLY_START", &variable::PDL);
    }

    #[test]
    fn the_older_name_of_operand_prefetch_works() {
        check("MSCCL_AT_ONCE", &variable::PREFETCH);
    }

    #[test]
    fn older_names_are_names_of_no_other_variable() {
        for (older, name) in RENAMED {
            assert!(older.starts_with(variable::PREFIX), "{older}");
            assert!(!variable::is_known(older) && variable::is_known(name), "{older}");
        }
    }
}
