//! What a user leaves to choose from, collective by collective: what NCCL's variables `NCCL_PROTO`
//! and `NCCL_ALGO` say.

use std::collections::BTreeMap;
use std::fmt;

use msccl_collective::Protocol;

use super::Available;

/// The `T`s that may be used, for each collective by its name. Unless something was said, all may.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Allowed<T> {
    /// For collectives that are not named; `None` is all.
    usual: Option<Vec<T>>,
    named: BTreeMap<&'static str, Vec<T>>,
}

impl<T> Default for Allowed<T> {
    fn default() -> Self {
        Self { usual: None, named: BTreeMap::new() }
    }
}

impl<T: PartialEq> Allowed<T> {
    /// From now on only `these`, for `collective` or for all that are not named. Two values that
    /// allow the same are equal if `these` come in one order.
    pub fn only(&mut self, collective: Option<&'static str>, these: Vec<T>) {
        match collective {
            Some(name) => drop(self.named.insert(name, these)),
            None => self.usual = Some(these),
        }
    }

    /// Whether `one` may be used for `collective`.
    pub fn allows(&self, collective: &str, one: T) -> bool {
        let these = self.named.get(collective).or(self.usual.as_ref());
        these.is_none_or(|these| these.contains(&one))
    }
}

impl Allowed<Protocol> {
    /// Those that may be used for `collective` where `preferred` would be best, the likest first.
    pub(crate) fn instead_of(
        &self,
        preferred: Protocol,
        collective: &str,
    ) -> impl Iterator<Item = Protocol> {
        let alike = match preferred {
            Protocol::Simple => [Protocol::Simple, Protocol::Ll128, Protocol::Ll],
            Protocol::Ll => [Protocol::Ll, Protocol::Ll128, Protocol::Simple],
            Protocol::Ll128 => [Protocol::Ll128, Protocol::Simple, Protocol::Ll],
        };
        alike.into_iter().filter(move |of| self.allows(collective, *of))
    }
}

impl<T: fmt::Display> fmt::Display for Allowed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |these: &[T]| these.iter().map(T::to_string).collect::<Vec<_>>().join(",");
        f.write_str(&self.usual.as_deref().map_or_else(|| "any".to_owned(), list))?;
        self.named.iter().try_for_each(|(name, these)| write!(f, ";{name}:{}", list(these)))
    }
}

/// A kind of algorithm, as far as NCCL has a name for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Data goes round, or along a chain.
    Ring,
    /// Data goes up and down trees.
    Tree,
    /// It was loaded, whatever it does.
    Loaded,
    /// Any other.
    Other,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 4] = [Family::Ring, Family::Tree, Family::Loaded, Family::Other];

    /// That of an algorithm, by its name.
    pub(crate) fn of(available: Available<'_>) -> Self {
        let named = |parts: &[&str]| parts.iter().any(|part| available.name().contains(part));
        match () {
            () if available.is_loaded() => Family::Loaded,
            () if named(&["ring", "chain"]) => Family::Ring,
            () if named(&["tree"]) => Family::Tree,
            () => Family::Other,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Family::Ring => "ring",
            Family::Tree => "tree",
            Family::Loaded => "loaded",
            Family::Other => "other",
        })
    }
}

#[cfg(test)]
mod tests {
    use msccl_collective::{CallPlacement, CollectiveKind};
    use msccl_registry::{Registry, Shape};

    use super::*;

    #[test]
    fn what_is_said_of_a_collective_wins() {
        let (simple, ll, ll128) = (Protocol::Simple, Protocol::Ll, Protocol::Ll128);
        let mut allowed = Allowed::default();
        assert_eq!(allowed.to_string(), "any");
        allowed.only(Some("allreduce"), vec![ll]);
        assert_eq!(allowed.to_string(), "any;allreduce:LL");
        assert!(allowed.allows("allgather", simple) && !allowed.allows("allreduce", simple));
        allowed.only(None, vec![simple, ll128]);
        assert_eq!(allowed.to_string(), "Simple,LL128;allreduce:LL");
        assert!(allowed.allows("allreduce", ll) && !allowed.allows("allgather", ll));
        let instead = |preferred, of| allowed.instead_of(preferred, of).collect::<Vec<_>>();
        assert_eq!(instead(simple, "allgather"), [simple, ll128]);
        assert_eq!(instead(ll, "allgather"), [ll128, simple]);
        assert_eq!(instead(ll128, "allgather"), [ll128, simple]);
        assert_eq!(instead(simple, "allreduce"), [ll]);
    }

    #[test]
    fn families_follow_from_names() {
        let registry = Registry::new(Shape { ranks: 4, per_node: 4 }, &[]);
        let of = |kind, name: &str| {
            let mut names = registry.built_in_names(kind, CallPlacement::OutOfPlace);
            Family::of(Available::BuiltIn(names.find(|known| *known == name).unwrap()))
        };
        let root = msccl_collective::Rank(0);
        assert_eq!(of(CollectiveKind::AllReduce, "allreduce/ring_interleaved"), Family::Ring);
        assert_eq!(of(CollectiveKind::AllReduce, "allreduce/double_binary_tree"), Family::Tree);
        assert_eq!(of(CollectiveKind::AllReduce, "allreduce/two_shot"), Family::Other);
        assert_eq!(of(CollectiveKind::Broadcast(root), "broadcast/chain"), Family::Ring);
        assert_eq!(of(CollectiveKind::Broadcast(root), "broadcast/tree"), Family::Tree);
    }
}
