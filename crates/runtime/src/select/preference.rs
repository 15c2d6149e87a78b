//! The order in which algorithms are asked whether they serve a call.

use std::sync::Arc;

use msccl_registry::Entry;

use super::Selector;
use super::allowed::Family;
use super::request::Request;
use super::tuning::{Basis, Machine, Tuning, Way};

/// Guesses that differ by less than one part in so many are as good as equal.
const ALIKE: u64 = 16;

/// An algorithm, how to run it, and why it stands where it does.
pub(super) struct Preference<'a> {
    pub entry: &'a Entry,
    pub way: Way,
    pub basis: Basis,
}

impl Selector {
    /// What might serve `request`, best first. `built_in` are the built-in algorithms for it, `guesses` what
    /// the call would cost with each of them, if that is asked.
    pub(super) fn preferences<'a>(
        &'a self,
        built_in: &'a Arc<[Entry]>,
        guesses: &[u64],
        request: &Request,
    ) -> impl Iterator<Item = Preference<'a>> {
        let rows = |table| self.rows(table, built_in, request);
        let of_user = self.tuning.iter().flat_map(rows);
        let of_library = self.shipped().into_iter().flat_map(rows);
        let mut usual: Vec<_> = of_library.chain(self.any(built_in, guesses, request)).collect();
        // What a user loads or names by a row was asked for more plainly than a family.
        let (families, collective) = (&self.wish.families, request.wanted.name());
        usual.sort_by_key(|of| !families.allows(collective, Family::of(of.entry)));
        let mut all: Vec<_> = self.unrestricted(request).chain(of_user).chain(usual).collect();
        if let Some(wish) = self.wish.algorithm.as_deref() {
            // What was not wished for is still better than nothing.
            all.sort_by_key(|of| of.entry.likeness(wish));
        }
        all.into_iter()
    }

    /// All built-in algorithms, those first with which the call would cost least. Among those that differ by
    /// less than a guess can tell, the one that is best for large messages comes first.
    fn any<'a>(
        &self,
        built_in: &'a [Entry],
        guesses: &[u64],
        request: &Request,
    ) -> Vec<Preference<'a>> {
        let Some(&least) = guesses.iter().min() else {
            let way = Way::fallback(self.machine);
            let any = built_in.iter();
            return any.map(|entry| Preference { entry, way, basis: Basis::Fallback }).collect();
        };
        let alike = least.saturating_add(least / ALIKE);
        let mut ordered: Vec<_> = built_in.iter().zip(guesses.iter().copied()).collect();
        ordered.sort_by_key(|&(_, ns)| ns.max(alike));
        let guessed = ordered.into_iter().map(|(entry, ns)| {
            let way = Way::between_nodes(self.machine, entry, request);
            Preference { entry, way, basis: Basis::Guess { ns } }
        });
        guessed.collect()
    }

    /// The tables, that of the user first.
    pub(super) fn tables(&self) -> impl Iterator<Item = &Tuning> {
        self.tuning.iter().chain(self.shipped())
    }

    /// The table that comes with the library. Nobody measured hosts.
    fn shipped(&self) -> Option<&'static Tuning> {
        (self.machine == Machine::Gpus).then(Tuning::shipped)
    }

    /// What the rows of `table` name, as far as it is at hand.
    fn rows<'a>(
        &'a self,
        table: &'a Tuning,
        built_in: &'a [Entry],
        request: &Request,
    ) -> Vec<Preference<'a>> {
        let at_hand: Vec<_> = self.loaded(request).chain(built_in).collect();
        let rows = table.rows_for(request, self.registry.shape());
        let named = rows.flat_map(|row| {
            let entries = at_hand.iter().filter(|entry| row.names(entry));
            entries.map(|entry| Preference { entry, way: row.choice.way, basis: table.basis(row) })
        });
        named.collect()
    }

    /// The loaded algorithms that no row keeps to calls for which they are best.
    fn unrestricted<'a>(&'a self, request: &Request) -> impl Iterator<Item = Preference<'a>> {
        let restricts = |entry: &Entry| self.tuning.iter().any(|table| table.names(entry));
        let free = self.loaded(request).filter(move |entry| !restricts(entry));
        free.map(|entry| {
            let way = Way::loaded(self.machine, entry);
            Preference { entry, way, basis: Basis::Loaded }
        })
    }

    /// The loaded algorithms of the collective, in the order of their files. Of a file that has one for each placement, that
    /// of the call.
    pub(super) fn loaded<'a>(&'a self, request: &Request) -> impl Iterator<Item = &'a Entry> {
        let Request { wanted, in_place, .. } = *request;
        let loaded = self.registry.loaded();
        let files = loaded.chunk_by(|one, other| one.name == other.name);
        let for_call = move |entry: &&Entry| {
            let placement = entry.verified.algorithm().placement;
            if in_place { placement.serves_in_place() } else { placement.serves_out_of_place() }
        };
        let of_file = move |entries: &'a [Entry]| {
            // If none is for it, one says why it does not serve.
            entries.iter().find(for_call).or(entries.first())
        };
        let entries = files.filter_map(of_file);
        entries.filter(move |entry| wanted.is(&entry.verified.algorithm().collective.kind))
    }
}
