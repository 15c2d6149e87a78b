//! The order in which algorithms are asked whether they serve a call.

use msccl_registry::{Entry, NameMatch};

use super::allowed::Family;
use super::call_shape::CallShape;
use super::guess::{ALIKE, Guess};
use super::links::Links;
use super::tuning::{Machine, PreferenceReason, Row, Tuning, Variant};
use super::{Available, RequiredOrder, Selector};

/// An algorithm, how to run it, and why it stands where it does.
pub(crate) struct Preference<'a> {
    pub available: Available<'a>,
    pub variant: Variant,
    pub basis: PreferenceReason,
}

impl Selector {
    /// What might serve `request` by kernels, best first. `guesses` are about the built-in
    /// algorithms for it; none, if nobody guesses. Rows for copy engines do not count: what they
    /// are for is carried, and kernels serve the other calls of that shape by the next row.
    pub(crate) fn preferences<'a>(
        &'a self,
        guesses: &[Guess],
        request: &CallShape,
    ) -> impl Iterator<Item = Preference<'a>> {
        let all = self.preferences_of_all(guesses, request).into_iter();
        all.filter(|of| of.variant.links != Links::CopyEngine)
    }

    /// The same, and what rows for copy engines name.
    pub(crate) fn preferences_of_all<'a>(
        &'a self,
        guesses: &[Guess],
        request: &CallShape,
    ) -> Vec<Preference<'a>> {
        let rows = |table| self.rows(table, request);
        let of_user = self.tuning.iter().flat_map(rows);
        let of_library = self.shipped().into_iter().flat_map(rows);
        let of_library = of_library.chain(self.estimated(request));
        let mut usual: Vec<_> = of_library.chain(self.any(guesses, request)).collect();
        // What a user loads or names by a row was asked for more plainly than a family.
        let (families, collective) = (&self.overrides.families, request.kind.name());
        usual.sort_by_key(|of| !families.allows(collective, Family::of(of.available)));
        let mut all: Vec<_> = self.unrestricted(request).chain(of_user).chain(usual).collect();
        // What is slower than the best serves if nothing else does, or if it is named.
        all.extend(self.slower(request));
        if let Some(overrides) = self.overrides.algorithm.as_deref() {
            // What does not follow the override is still better than nothing.
            all.sort_by_key(|of| NameMatch::of(of.available.name(), overrides));
        }
        all
    }

    /// Whether the user names what serves calls like `request`, or says how.
    pub(crate) fn is_named_by_user(&self, request: &CallShape) -> bool {
        self.overrides.algorithm.is_some()
            || self.overrides.say_how_kernels_run()
            || self.unrestricted(request).next().is_some()
            || self.tuning.iter().any(|table| !self.rows(table, request).is_empty())
    }

    /// How what `preference` names, which is `entry`, is run in a call like `request`. Over several
    /// nodes, how a built-in algorithm runs that nothing names depends on its chunks.
    pub(crate) fn variant_of(
        &self,
        preference: &Preference<'_>,
        entry: &Entry,
        request: &CallShape,
    ) -> Variant {
        let is_several = self.registry.shape().nodes() > 1;
        match preference.basis {
            PreferenceReason::Fallback if is_several => {
                Variant::between_nodes(self.machine, entry, request)
            }
            _ => preference.variant,
        }
    }

    /// All built-in algorithms, those first with which the call would cost least. Among those that
    /// differ by less than a guess can show, the one that is best for large messages comes first.
    fn any(&self, guesses: &[Guess], request: &CallShape) -> Vec<Preference<'static>> {
        let Some(least) = guesses.iter().map(|guess| guess.ns).min() else {
            let variant = Variant::fallback(self.machine);
            let any = self
                .built_in_names(request)
                .into_iter()
                .map(|name| (Available::BuiltIn(name), PreferenceReason::Fallback));
            return any
                .map(|(available, basis)| Preference { available, variant, basis })
                .collect();
        };
        let alike = least.saturating_add(least / ALIKE);
        let mut ordered: Vec<&Guess> = guesses.iter().collect();
        ordered.sort_by_key(|guess| guess.ns.max(alike));
        let guessed = ordered.into_iter().map(|&Guess { name, variant, ns: _ }| Preference {
            available: Available::BuiltIn(name),
            variant,
            basis: PreferenceReason::Guess,
        });
        guessed.collect()
    }

    /// The tables, that of the user first.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Tuning> {
        self.tuning.iter().chain(self.shipped())
    }

    /// The table that comes with the library. Nobody measured hosts.
    fn shipped(&self) -> Option<&'static Tuning> {
        (self.machine == Machine::Gpus).then(Tuning::shipped)
    }

    /// What the rows of `table` name, as far as it is at hand.
    fn rows<'a>(&'a self, table: &'a Tuning, request: &CallShape) -> Vec<Preference<'a>> {
        self.named(table, table.rows_for(request, self.registry.shape()), request)
    }

    /// The same of the estimates that come with the library, for GPUs on several nodes. Where there
    /// are so many ranks that nothing is guessed, the rows for the nearest number of nodes count.
    fn estimated(&self, request: &CallShape) -> Vec<Preference<'_>> {
        let (table, shape) = (Tuning::estimated(), self.registry.shape());
        if self.machine == Machine::Host || shape.nodes() < 2 {
            return Vec::new();
        }
        let is_there = table.rows_of_shape(shape).next().is_some();
        let other = (!is_there && !self.is_guessed()).then(|| table.nearest(shape)).flatten();
        let rows = table.rows_like(request, request.bytes(shape.ranks), other.unwrap_or(shape));
        self.named(table, rows, request)
    }

    /// Whether a row is for calls like `request`, so that nothing is guessed.
    pub(crate) fn has_rows(&self, request: &CallShape) -> bool {
        let mut tables = self.tables();
        let has = tables.any(|table| !self.rows(table, request).is_empty());
        has || !self.estimated(request).is_empty()
    }

    /// What `rows` of `table` name, as far as it is at hand.
    fn named<'a, 't: 'a>(
        &'a self,
        table: &'t Tuning,
        rows: impl Iterator<Item = &'t Row>,
        request: &CallShape,
    ) -> Vec<Preference<'a>> {
        let available = self.available(request);
        let named = rows.flat_map(|row| {
            let named = available.iter().copied().filter(|of| row.names(*of));
            let variant = row.choice.variant;
            named.map(move |available| Preference { available, variant, basis: table.basis(row) })
        });
        named.collect()
    }

    /// What was loaded for `request`, and then what is built in.
    pub(crate) fn available<'a>(&'a self, request: &CallShape) -> Vec<Available<'a>> {
        let built_in = self.built_in_names(request).into_iter();
        let loaded = self.loaded(request).map(Available::Loaded);
        loaded.chain(built_in.map(Available::BuiltIn)).collect()
    }

    /// The names of the built-in algorithms for `request`: those that are there for their order of
    /// additions only if an order is required, or if they are named.
    pub(crate) fn built_in_names(&self, request: &CallShape) -> Vec<&'static str> {
        let CallShape { kind, placement, .. } = *request;
        let (algorithm, order) = (&self.overrides.algorithm, self.order());
        let fits = |called: &str, name: &str| NameMatch::of(name, called) != NameMatch::None;
        let is_named = |name: &str| algorithm.as_deref().is_some_and(|called| fits(called, name));
        let ordered = self.registry.ordered_built_in_names(kind, placement);
        let ordered = ordered.filter(|name| order != RequiredOrder::Any || is_named(name));
        self.registry.built_in_names(kind, placement).chain(ordered).collect()
    }

    /// The algorithm itself, for `request`: what is built in is compiled and proved now, unless it
    /// is already. Nothing if it does not serve such calls.
    pub(crate) fn proved(&self, available: Available<'_>, request: &CallShape) -> Option<Entry> {
        match available {
            Available::Loaded(entry) => Some(entry.clone()),
            Available::BuiltIn(name) => {
                self.registry.built_in_named(request.kind, request.placement, name)
            }
        }
    }

    /// The loaded algorithms that were measured on such ranks, and were not the best.
    pub(crate) fn slower<'a>(
        &'a self,
        request: &CallShape,
    ) -> impl Iterator<Item = Preference<'a>> {
        let shape = self.registry.shape();
        let why =
            move |entry: &'a Entry| self.tuning.as_ref()?.why_slower(entry.into(), request, shape);
        self.loaded(request).filter_map(move |entry| {
            let basis = why(entry)?;
            let variant = Variant::loaded(self.machine, entry);
            Some(Preference { available: Available::Loaded(entry), variant, basis })
        })
    }

    /// The loaded algorithms that no row keeps to calls for which they are best, and that were not
    /// measured to be slower than others.
    fn unrestricted<'a>(&'a self, request: &CallShape) -> impl Iterator<Item = Preference<'a>> {
        let shape = self.registry.shape();
        let restricts = move |entry: &Entry| {
            let table = self.tuning.as_ref();
            table.is_some_and(|table| {
                table.names(entry.into())
                    || table.why_slower(entry.into(), request, shape).is_some()
            })
        };
        let free = self.loaded(request).filter(move |entry| !restricts(entry));
        free.map(|entry| {
            let variant = Variant::loaded(self.machine, entry);
            Preference {
                available: Available::Loaded(entry),
                variant,
                basis: PreferenceReason::Loaded,
            }
        })
    }

    /// The loaded algorithms of the collective, in the order of their files. Of a file that has one
    /// for each placement, that of the call.
    pub(crate) fn loaded<'a>(&'a self, request: &CallShape) -> impl Iterator<Item = &'a Entry> {
        let CallShape { kind, placement, .. } = *request;
        let loaded = self.registry.loaded();
        let files = loaded.chunk_by(|one, other| one.name == other.name);
        let for_call = move |entry: &&Entry| entry.verified.algorithm().placement.serves(placement);
        let of_file = move |entries: &'a [Entry]| {
            // If none is for it, one says why it does not serve.
            entries.iter().find(for_call).or(entries.first())
        };
        let entries = files.filter_map(of_file);
        entries.filter(move |entry| kind.is(&entry.verified.algorithm().collective.kind))
    }
}
