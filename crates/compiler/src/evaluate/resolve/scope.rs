//! Names in sight: variables of the frame, innermost last.

use super::super::resolved::Local;

/// The variables of one frame.
#[derive(Default)]
pub(super) struct Scope<'a> {
    names: Vec<&'a str>,
    most: u32,
}

/// How many variables were in sight when a block began.
#[derive(Clone, Copy)]
pub(super) struct Mark(usize);

impl<'a> Scope<'a> {
    /// A new variable; it hides an older one of the same name.
    pub fn bind(&mut self, name: &'a str) -> Local {
        self.names.push(name);
        self.most = self.most.max(self.names.len() as u32);
        Local(self.names.len() as u32 - 1)
    }

    pub fn find(&self, name: &str) -> Option<Local> {
        let position = self.names.iter().rposition(|&known| known == name)?;
        Some(Local(position as u32))
    }

    pub fn mark(&self) -> Mark {
        Mark(self.names.len())
    }

    /// Forgets what was bound since.
    pub fn release(&mut self, Mark(length): Mark) {
        self.names.truncate(length);
    }

    pub fn names(&self) -> &[&'a str] {
        &self.names
    }

    /// The size of the frame: most variables in sight at once.
    pub fn most(&self) -> u32 {
        self.most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_names_hide_outer_ones_until_their_block_ends() {
        let mut scope = Scope::default();
        assert_eq!(scope.bind("x"), Local(0));
        let mark = scope.mark();
        assert_eq!(scope.bind("x"), Local(1));
        assert_eq!(scope.find("x"), Some(Local(1)));
        scope.release(mark);
        assert_eq!((scope.find("x"), scope.most()), (Some(Local(0)), 2));
    }
}
