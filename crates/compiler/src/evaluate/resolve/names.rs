//! What the names of definitions mean, file by file.
//!
//! A file sees its own definitions and those that the files it imports see. Its own hide imported
//! ones of the same name; of several imported ones none hides another.

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The numbers of definitions, by file and name.
pub(super) struct Names<'a> {
    files: Vec<FxHashMap<&'a str, SmallVec<[u32; 1]>>>,
}

impl<'a> Names<'a> {
    /// For so many files without definitions.
    pub fn new(files: usize) -> Self {
        Self { files: vec![FxHashMap::default(); files] }
    }

    /// A definition in a file; the number of an earlier one of that name, if there is one.
    pub fn define(&mut self, file: usize, name: &'a str, number: u32) -> Result<(), u32> {
        let known = self.files[file].entry(name).or_default();
        match known.first() {
            Some(&first) => Err(first),
            None => {
                known.push(number);
                Ok(())
            }
        }
    }

    /// Adds what a file imports. All its own definitions must be there, and those of the imported
    /// files with what they import in turn.
    pub fn import(&mut self, file: usize, imports: &[usize]) {
        let mut found: FxHashMap<&'a str, SmallVec<[u32; 1]>> = FxHashMap::default();
        for &import in imports {
            for (&name, numbers) in &self.files[import] {
                let known = found.entry(name).or_default();
                known.extend(numbers.iter().copied());
                known.sort_unstable();
                known.dedup();
            }
        }
        for (name, numbers) in found {
            self.files[file].entry(name).or_insert(numbers);
        }
    }

    /// The definitions that a name may mean in a file; more than one if it is not clear which.
    pub fn find(&self, file: usize, name: &str) -> &[u32] {
        self.files[file].get(name).map_or(&[], |numbers| numbers)
    }

    /// All names seen in a file.
    pub fn of_file(&self, file: usize) -> impl Iterator<Item = &'a str> {
        self.files[file].keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files 1 and 2 define `f`, which file 3 gets from both and file 0 from there and defines too.
    fn diamond() -> Names<'static> {
        let mut names = Names::new(4);
        assert_eq!(names.define(0, "f", 0), Ok(()));
        assert_eq!(names.define(1, "f", 1), Ok(()));
        assert_eq!(names.define(2, "f", 2), Ok(()));
        assert_eq!(names.define(1, "g", 3), Ok(()));
        names.import(2, &[1]);
        names.import(3, &[1, 2]);
        names.import(0, &[3]);
        names
    }

    #[test]
    fn own_definitions_hide_imported_ones() {
        let names = diamond();
        assert_eq!(names.find(0, "f"), [0]);
        assert_eq!(names.find(2, "f"), [2]);
        assert_eq!(names.find(3, "f"), [1, 2]);
        assert_eq!(names.find(1, "h"), []);
    }

    #[test]
    fn one_definition_by_two_imports_is_one() {
        let names = diamond();
        assert_eq!(names.find(3, "g"), [3]);
        assert_eq!(names.find(0, "g"), [3]);
    }

    #[test]
    fn a_second_definition_is_refused() {
        assert_eq!(diamond().define(1, "g", 9), Err(3));
    }
}
