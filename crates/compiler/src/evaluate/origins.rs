//! Where ops come from: a statement, and the calls through which it was reached.

use msccl_syntax::Span;
use rustc_hash::FxHashMap;

use super::resolved::Site;
use crate::chunk::{Origin, StatementId};

/// A chain of calls, innermost last; the empty one is number 0. A call that is already in the
/// chain cuts it there, so that recursion does not make ever new chains.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Path(u32);

/// Numbers for pairs of a statement and a chain of calls. The first is the algorithm's head.
pub(super) struct CallOrigins<'a> {
    sites: &'a [Span],
    /// The call that each chain but the empty one ends with, and the chain before it.
    paths: Vec<(Path, Option<Site>)>,
    path_numbers: FxHashMap<(Path, Site), Path>,
    /// By site: the chain it was last reached by, and the number of that pair.
    latest: Vec<Option<(Path, StatementId)>>,
    numbers: FxHashMap<(Path, Site), StatementId>,
    statements: Vec<Origin>,
}

impl<'a> CallOrigins<'a> {
    pub fn new(sites: &'a [Span], head: Span) -> Self {
        Self {
            sites,
            paths: vec![(Path(0), None)],
            path_numbers: FxHashMap::default(),
            latest: vec![None; sites.len()],
            numbers: FxHashMap::default(),
            statements: vec![Origin { span: head, called_from: Vec::new() }],
        }
    }

    /// The chain `path` and then the call at `site`.
    pub fn enter(&mut self, path: Path, site: Site) -> Path {
        if let Some(&known) = self.path_numbers.get(&(path, site)) {
            return known;
        }
        let entered = self.chain(path).find(|&(_, call)| call == site).map(|(path, _)| path);
        let entered = entered.unwrap_or_else(|| {
            self.paths.push((path, Some(site)));
            Path(self.paths.len() as u32 - 1)
        });
        self.path_numbers.insert((path, site), entered);
        entered
    }

    /// The calls of a chain, innermost first, each with the chain that ends with it.
    fn chain(&self, path: Path) -> impl Iterator<Item = (Path, Site)> {
        let mut next = path;
        std::iter::from_fn(move || {
            let (before, site) = self.paths[next.0 as usize];
            let found = (next, site?);
            next = before;
            Some(found)
        })
    }

    /// The number of the statement at `site` reached by `path`.
    #[inline]
    pub fn number(&mut self, path: Path, site: Site) -> StatementId {
        match self.latest[site.0 as usize] {
            Some((latest, number)) if latest == path => number,
            _ => self.look_up(path, site),
        }
    }

    fn look_up(&mut self, path: Path, site: Site) -> StatementId {
        let number = match self.numbers.get(&(path, site)) {
            Some(&number) => number,
            None => {
                let called_from =
                    self.chain(path).map(|(_, call)| self.sites[call.0 as usize]).collect();
                self.statements.push(Origin { span: self.sites[site.0 as usize], called_from });
                StatementId(self.statements.len() as u32 - 1)
            }
        };
        self.numbers.insert((path, site), number);
        self.latest[site.0 as usize] = Some((path, number));
        number
    }

    pub fn into_statements(self) -> Vec<Origin> {
        self.statements
    }
}
