//! Which algorithms were requested of a library, so that a report can say whether they served.

/// What was requested: nothing, a part of a name, files, or a folder of files.
///
/// Libraries of ours call a loaded algorithm by the path of its file, as it was given.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RequestedAlgorithms {
    /// A part of the name of what is to serve.
    pub name: Option<String>,
    /// Files with algorithms.
    pub files: Vec<String>,
    /// A folder of such files.
    pub folder: Option<String>,
}

/// Something that was requested, in words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RequestedAlgorithm<'a> {
    /// What, such as `an algorithm called ring`.
    pub words: String,
    target: Target<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target<'a> {
    Name(&'a str),
    File(&'a str),
    Folder(&'a str),
}

impl RequestedAlgorithm<'_> {
    /// Whether `algorithm` is what was requested.
    pub fn is_met_by(&self, algorithm: &str) -> bool {
        match self.target {
            Target::Name(part) => algorithm.contains(part),
            Target::File(path) => algorithm == path,
            Target::Folder(folder) => {
                let below = algorithm.strip_prefix(folder.trim_end_matches('/'));
                below.is_some_and(|below| below.starts_with('/'))
            }
        }
    }
}

impl RequestedAlgorithms {
    /// Everything that was requested, one by one.
    pub fn algorithms(&self) -> Vec<RequestedAlgorithm<'_>> {
        let Self { name, files, folder } = self;
        let name = name.iter().map(|name| RequestedAlgorithm {
            words: format!("an algorithm whose name contains `{name}`"),
            target: Target::Name(name),
        });
        let files = files.iter().map(|path| RequestedAlgorithm {
            words: format!("the file {path}"),
            target: Target::File(path),
        });
        let folder = folder.iter().map(|path| RequestedAlgorithm {
            words: format!("the files of {path}"),
            target: Target::Folder(path),
        });
        name.chain(files).chain(folder).collect()
    }

    /// Whether `algorithm` serves as requested: it has the name, or, where no name was requested,
    /// it is of one of the files. Everything does where nothing was requested.
    pub fn is_met_by(&self, algorithm: &str) -> bool {
        let algorithms = self.algorithms();
        match (&self.name, &algorithms[..]) {
            (_, []) => true,
            (Some(_), [name, ..]) => name.is_met_by(algorithm),
            (None, algorithms) => algorithms.iter().any(|requested| requested.is_met_by(algorithm)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(name: Option<&str>, files: &[&str], folder: Option<&str>) -> RequestedAlgorithms {
        let owned = |text: &str| text.to_owned();
        RequestedAlgorithms {
            name: name.map(owned),
            files: files.iter().map(|file| owned(file)).collect(),
            folder: folder.map(owned),
        }
    }

    #[test]
    fn what_serves_is_what_was_requested_or_not() {
        assert!(requested(None, &[], None).is_met_by("allreduce/ring"));
        let ring = requested(Some("ring"), &[], None);
        assert!(ring.is_met_by("allreduce/ring") && !ring.is_met_by("allreduce/tree"));
        let files = requested(None, &["a.xml", "/b/c.xml"], None);
        assert!(files.is_met_by("/b/c.xml") && !files.is_met_by("c.xml"));
        assert!(!files.is_met_by("allreduce/ring"));
        let folder = requested(None, &[], Some("/site/"));
        assert!(folder.is_met_by("/site/a.xml") && !folder.is_met_by("/sites/a.xml"));
        // A name chooses among files, too.
        let both = requested(Some("mine"), &["a.xml"], None);
        assert!(both.is_met_by("/x/mine.xml") && !both.is_met_by("a.xml"));
    }

    #[test]
    fn requests_are_listed_one_by_one() {
        let requested = requested(Some("ring"), &["a.xml"], Some("/site"));
        let words: Vec<_> = requested.algorithms().into_iter().map(|it| it.words).collect();
        assert_eq!(
            words,
            ["an algorithm whose name contains `ring`", "the file a.xml", "the files of /site"]
        );
    }
}
