//! `images/MANIFEST`: of which sources each image was made, and which bytes it has.

use std::collections::BTreeMap;
use std::fmt;

use super::Target;

/// The path of the manifest below the folder of this package.
pub const MANIFEST: &str = "images/MANIFEST";

const HEAD: &str = "\
# A line for each image: its name, the SHA-256 of what the compiler was given (version, options, and
# the sources without comments and layout), and the SHA-256 of what it gave. kernels/README.md
# explains it. Written by `cargo xtask kernels`: do not edit.
";

/// What is known of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The [fingerprint](super::Inputs::fingerprint) of what it was made from.
    pub inputs: String,
    /// The hash of its bytes, unpacked.
    pub image: String,
}

/// All lines, by the names of their images.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Manifest {
    lines: BTreeMap<String, Line>,
}

impl Manifest {
    /// Reads the text of a manifest.
    ///
    /// # Errors
    ///
    /// A line is none of a manifest.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = BTreeMap::new();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
            let words: Vec<_> = line.split_whitespace().collect();
            let [name, inputs, image] = words[..] else {
                let number = number + 1;
                return Err(format!(
                    "{MANIFEST}, line {number}: expected an image's name and two hashes, found \
                     `{line}`"
                ));
            };
            let line = Line { inputs: inputs.to_owned(), image: image.to_owned() };
            if lines.insert(name.to_owned(), line).is_some() {
                return Err(format!("{MANIFEST}: {name} has two lines; keep one of them"));
            }
        }
        Ok(Self { lines })
    }

    /// What is known of `target`.
    pub fn line(&self, target: Target) -> Option<&Line> {
        self.lines.get(&target.name())
    }

    /// Writes down what is known of `target`; all else stays.
    pub fn set(&mut self, target: Target, line: Line) {
        self.lines.insert(target.name(), line);
    }

    /// The names of images that are none of this recipe.
    pub fn surplus(&self) -> Vec<String> {
        let known: Vec<_> = Target::all().into_iter().map(Target::name).collect();
        self.lines.keys().filter(|name| !known.contains(name)).cloned().collect()
    }

    /// Takes the lines of images that are none of this recipe away.
    pub fn drop_surplus(&mut self) {
        for name in self.surplus() {
            self.lines.remove(&name);
        }
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        for (name, Line { inputs, image }) in &self.lines {
            writeln!(f, "{name} {inputs} {image}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_are_read_as_they_are_written() {
        let mut manifest = Manifest::default();
        for (number, target) in Target::all().into_iter().enumerate() {
            let line = Line { inputs: format!("a{number}"), image: format!("b{number}") };
            manifest.set(target, line);
        }
        assert_eq!(Manifest::parse(&manifest.to_string()), Ok(manifest.clone()));
        assert!(manifest.surplus().is_empty());
    }

    #[test]
    fn lines_that_are_none_are_refused() {
        let error = Manifest::parse("# a\nsimple.sm_80 aa\n").unwrap_err();
        assert!(error.contains("line 2") && error.contains("simple.sm_80 aa"), "{error}");
        let error = Manifest::parse("<<<<<<< ours\n").unwrap_err();
        assert!(error.contains("line 1"), "{error}");
        assert!(Manifest::parse("a b c\na b d\n").unwrap_err().contains("two lines"));
    }

    #[test]
    fn surplus_lines_can_go() {
        let mut manifest = Manifest::parse("gone.sm_80 a b\nsimple.sm_80 a b\n").unwrap();
        assert_eq!(manifest.surplus(), ["gone.sm_80"]);
        manifest.drop_surplus();
        assert_eq!(manifest, Manifest::parse("simple.sm_80 a b\n").unwrap());
    }
}
