//! `<algo>`: the attributes of the whole, and how the gpus become one algorithm.

use std::sync::Arc;

use msccl_collective::{Collective, Custom, Kind, Placement, Protocol, Rank, SizeRange};
use msccl_ir::{Algorithm, RankProgram};

use super::attributes::Attributes;
use super::contract::Clauses;
use super::cursor::{Cursor, Element};
use super::gpu::Gpu;
use super::notes::Notes;
use super::places::{Places, RankPlaces};
use super::{Dialect, ReadError, collective};
use crate::xml::Locus;
use crate::xml::vocabulary::{MOST, algo, collectives};

/// `maxBytes` of the first runtime where a file states none; calls of that size are not served.
const DEFAULT_MAX_BYTES: i64 = 1 << 27;

/// What the attributes of `<algo>` say.
#[derive(Clone)]
pub(super) struct Head {
    pub dialect: Dialect,
    /// `ngpus`.
    pub ranks: u32,
    offset: usize,
    name: String,
    protocol: Protocol,
    placement: Placement,
    sizes: SizeRange,
    threads: Option<u32>,
    loop_chunks: u32,
    loop_chunks_offset: usize,
    /// `nchannels`, if it is stated.
    channels: Option<u32>,
    /// `coll`, or the name that a custom collective has.
    collective: String,
    /// Whether the file calls it `custom`, on purpose.
    says_custom: bool,
    /// Chunks in a block of a custom collective.
    custom_chunks: u32,
    root: Rank,
}

type Values<'a> = Attributes<'a, { algo::TABLE.len() }>;

impl Head {
    pub(super) fn read<'a>(
        cursor: &mut Cursor<'a>,
        element: &Element<'a>,
    ) -> Result<Self, ReadError> {
        let values = Attributes::gather(cursor, element, algo::NAME, &algo::TABLE)?;
        let coll = values.text(cursor, algo::COLL)?.into_owned();
        note_unknown_collective(cursor, &values, &coll);
        let executor = values.has(algo::OUTOFPLACE) || collective::is_executors(&coll);
        let dialect = if executor { Dialect::Executor } else { Dialect::Msccl };
        let ranks = values.index(cursor, algo::NGPUS)?;
        let root =
            if values.has(algo::ROOT) { Rank(values.index(cursor, algo::ROOT)?) } else { Rank(0) };
        if root.0 >= ranks {
            let offset = values.offset_of(cursor, algo::ROOT);
            let message = format!("the root is gpu {}, but there are {ranks} gpus", root.0);
            cursor.notes.contradiction(offset, Locus::default(), message);
        }
        Ok(Self {
            dialect,
            ranks,
            offset: element.offset,
            name: read_name(cursor, &values)?,
            protocol: read_protocol(cursor, &values)?,
            placement: read_placement(cursor, &values, dialect)?,
            sizes: read_sizes(
                cursor,
                &values,
                dialect,
                collective::call_blocks(dialect, &coll, ranks),
            )?,
            threads: read_threads(cursor, &values, dialect)?,
            loop_chunks: values.index(cursor, algo::NCHUNKSPERLOOP)?,
            loop_chunks_offset: values.offset_of(cursor, algo::NCHUNKSPERLOOP),
            channels: read_channels(cursor, &values)?,
            says_custom: coll == "custom",
            collective: if values.has(algo::CUSTOM) && coll == "custom" {
                values.text(cursor, algo::CUSTOM)?.into_owned()
            } else {
                coll
            },
            custom_chunks: if values.has(algo::CHUNKS) {
                values.index(cursor, algo::CHUNKS)?
            } else {
                1
            },
            root: Rank(root.0.min(ranks - 1)),
        })
    }
}

/// Notes which runtime knows no collective of that name, if the other one does. A name that nobody
/// knows is a custom collective, about which there is a warning.
fn note_unknown_collective<'a>(cursor: &mut Cursor<'a>, values: &Values<'a>, coll: &str) {
    let knows = |dialect: &Dialect| collectives(*dialect).contains(&coll);
    let is_known = Dialect::ALL.iter().any(knows);
    for dialect in Dialect::ALL.into_iter().filter(|dialect| is_known && !knows(dialect)) {
        let offset = values.offset_of(cursor, algo::COLL);
        let known = collectives(dialect).join(", ");
        let why = format!("{} knows no collective `{coll}`; it knows {known}", dialect.runtime());
        cursor.notes.demand(dialect, offset, Locus::default(), why);
    }
}

fn read_name<'a>(cursor: &mut Cursor<'a>, values: &Values<'a>) -> Result<String, ReadError> {
    if values.has(algo::LABEL) {
        return Ok(values.text(cursor, algo::LABEL)?.into_owned());
    }
    cursor.notes.missing(algo::NAME, "name");
    Ok(String::new())
}

fn read_protocol<'a>(cursor: &mut Cursor<'a>, values: &Values<'a>) -> Result<Protocol, ReadError> {
    if !values.has(algo::PROTO) {
        cursor.notes.missing(algo::NAME, "proto");
        return Ok(Protocol::Simple);
    }
    let name = values.word(cursor, algo::PROTO)?;
    let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.name().as_bytes() == name);
    protocol.ok_or_else(|| values.not_a_word(cursor, algo::PROTO))
}

fn read_placement<'a>(
    cursor: &mut Cursor<'a>,
    values: &Values<'a>,
    dialect: Dialect,
) -> Result<Placement, ReadError> {
    let inside = values.integer_or(cursor, algo::INPLACE, 0)? == 1;
    let outside = match (dialect, values.has(algo::OUTOFPLACE)) {
        (_, true) => values.integer(cursor, algo::OUTOFPLACE)? == 1,
        (Dialect::Executor | Dialect::Msccl, false) => !inside,
    };
    Ok(match (inside, outside) {
        (true, true) => Placement::Both,
        (true, false) => Placement::InPlace,
        (false, true) => Placement::OutOfPlace,
        (false, false) => {
            let offset = values.offset_of(cursor, algo::OUTOFPLACE);
            let message = "serves calls neither in place nor out of place";
            cursor.notes.contradiction(offset, Locus::default(), message);
            Placement::OutOfPlace
        }
    })
}

fn read_sizes<'a>(
    cursor: &mut Cursor<'a>,
    values: &Values<'a>,
    dialect: Dialect,
    blocks: u64,
) -> Result<SizeRange, ReadError> {
    let stated =
        |at, default| if values.has(at) { values.integer(cursor, at) } else { Ok(default) };
    let min = stated(algo::MIN_BYTES, 0)?;
    let max = match (dialect, values.has(algo::MAX_BYTES)) {
        (Dialect::Executor, true) => {
            Some(values.integer(cursor, algo::MAX_BYTES)?).filter(|&max| max != 0)
        }
        (Dialect::Msccl, _) | (Dialect::Executor, false) => {
            let excluded = stated(algo::MAX_BYTES, DEFAULT_MAX_BYTES)?;
            Some(excluded - 1).filter(|_| excluded != i64::MAX)
        }
    };
    if max.is_some_and(|max| max < min) {
        let offset = values.offset_of(cursor, algo::MAX_BYTES);
        let message = "the range from minBytes to maxBytes is empty, so the file serves no call; \
                       maxBytes is excluded in the first runtime, included in the executor";
        cursor.notes.contradiction(offset, Locus::default(), message);
    }
    let of_all_blocks = |bytes: i64| u64::try_from(bytes).unwrap_or(0).saturating_mul(blocks);
    Ok(SizeRange { min_bytes: of_all_blocks(min), max_bytes: max.map(of_all_blocks) })
}

/// 0 is what the first runtime takes where there is no `nthreads`; the executor does not read it.
fn read_threads<'a>(
    cursor: &mut Cursor<'a>,
    values: &Values<'a>,
    dialect: Dialect,
) -> Result<Option<u32>, ReadError> {
    if !values.has(algo::NTHREADS) {
        return Ok(None);
    }
    let threads = values.index(cursor, algo::NTHREADS)?;
    if threads == 0 {
        return Ok(None);
    }
    if !threads.is_multiple_of(32) {
        if dialect == Dialect::Executor {
            let ignored =
                "`nthreads` is not read by the executor, and no multiple of 32; it is ignored";
            cursor.notes.warning(ignored.to_owned());
            return Ok(None);
        }
        let offset = values.offset_of(cursor, algo::NTHREADS);
        let message = format!("{threads} threads: the first runtime takes multiples of 32");
        cursor.notes.contradiction(offset, Locus::default(), message);
    }
    Ok(Some(threads))
}

fn read_channels<'a>(
    cursor: &mut Cursor<'a>,
    values: &Values<'a>,
) -> Result<Option<u32>, ReadError> {
    if values.has(algo::NCHANNELS) {
        return Ok(Some(values.index(cursor, algo::NCHANNELS)?));
    }
    cursor.notes.missing(algo::NAME, "nchannels");
    Ok(None)
}

/// The algorithm that a head, its gpus and its contract make, and where its steps stand.
pub(super) fn assemble(
    notes: &mut Notes,
    head: Head,
    gpus: Vec<Gpu>,
    clauses: Clauses,
) -> (Algorithm, Places) {
    let collective = head.collective(&gpus, clauses, notes);
    head.check_channels(&gpus, notes);
    head.check_chunks(&gpus, &collective.kind, notes);
    let (ranks, places) = place(gpus, &head, notes);
    let Head { name, protocol, placement, sizes, threads, .. } = head;
    let algorithm = Algorithm { name, collective, placement, protocol, sizes, threads, ranks };
    (algorithm, Places::new(places))
}

/// The programs and the places of their steps, in the order of ranks.
fn place(gpus: Vec<Gpu>, head: &Head, notes: &mut Notes) -> (Vec<RankProgram>, Vec<RankPlaces>) {
    let mut ranks: Vec<Option<(RankProgram, RankPlaces)>> = Vec::new();
    ranks.resize_with(head.ranks as usize, || None);
    let found_before = notes.found();
    for Gpu { id, offset, program, places, chunks: _, channels: _ } in gpus {
        let locus = Locus { gpu: Some(id), ..Locus::default() };
        match ranks.get_mut(id as usize) {
            Some(place @ None) => *place = Some((program, places)),
            Some(Some(_)) => notes.contradiction(offset, locus, "a second gpu has this id"),
            None => {
                let message = format!("its id is not below the number of gpus, {}", head.ranks);
                notes.contradiction(offset, locus, message);
            }
        }
    }
    let missing = ranks.iter().position(Option::is_none);
    if let Some(missing) = missing.filter(|_| notes.found() == found_before) {
        let message = format!("ngpus is {}, but there is no gpu {missing}", head.ranks);
        notes.contradiction(head.offset, Locus::default(), message);
    }
    ranks.into_iter().map(Option::unwrap_or_default).unzip()
}

impl Head {
    fn collective(&self, gpus: &[Gpu], clauses: Clauses, notes: &mut Notes) -> Collective {
        let Some(kind) = collective::kind_by_name(&self.collective, self.root) else {
            let most = |buffer: usize| gpus.iter().map(|gpu| gpu.chunks[buffer]).max().unwrap_or(0);
            let Clauses { contract } = clauses;
            let name = self.collective.clone();
            if contract.is_none() && !self.says_custom {
                notes.warning(self.unknown_purpose());
            }
            let custom = Custom { name, input_chunks: most(0), output_chunks: most(1), contract };
            return Collective {
                kind: Kind::Custom(Arc::new(custom)),
                ranks: self.ranks,
                chunks: self.custom_chunks,
            };
        };
        let blocks = collective::loop_blocks(&kind, self.ranks);
        if self.loop_chunks == 0 || !self.loop_chunks.is_multiple_of(blocks) {
            let message = format!(
                "nchunksperloop is {}, but {} over {} gpus needs a multiple of {blocks}",
                self.loop_chunks, self.collective, self.ranks
            );
            notes.contradiction(self.loop_chunks_offset, Locus::default(), message);
        }
        let chunks = self.loop_chunks.div_ceil(blocks).max(1);
        Collective { kind, ranks: self.ranks, chunks }
    }

    /// The warning about a collective that has neither a known name nor a contract, often a slip of
    /// the pen.
    fn unknown_purpose(&self) -> String {
        let known = collectives(self.dialect).iter().copied();
        let known = known.filter(|name| collective::kind_by_name(name, self.root).is_some());
        format!(
            "`{}` is none of the standard collectives ({}), and the file has no contract: nothing \
             is known of what it should compute",
            self.collective,
            known.collect::<Vec<_>>().join(", ")
        )
    }

    fn check_channels(&self, gpus: &[Gpu], notes: &mut Notes) {
        let used = gpus.iter().map(|gpu| gpu.channels).max().unwrap_or(0);
        if let Some(channels) = self.channels.filter(|&channels| channels < used) {
            let message = format!(
                "nchannels is {channels}, but channel {} is used; the runtime opens no more than \
                 nchannels",
                used - 1
            );
            notes.contradiction(self.offset, Locus::default(), message);
        }
    }

    /// The first runtime's own check; the executor has none.
    fn check_chunks(&self, gpus: &[Gpu], kind: &Kind, notes: &mut Notes) {
        if self.dialect == Dialect::Executor {
            return;
        }
        let (input, output) = collective::multipliers(kind, self.ranks);
        let expected = u64::from(self.loop_chunks);
        for gpu in gpus {
            let [i_chunks, o_chunks, _] = gpu.chunks.map(u64::from);
            for (name, chunks, times) in
                [("i_chunks", i_chunks, input), ("o_chunks", o_chunks, output)]
            {
                if chunks > 0 && chunks * times != expected {
                    let message = format!(
                        "{name} is {chunks}, but nchunksperloop {expected} means {}; the first \
                         runtime refuses the file on this rank only",
                        expected / times
                    );
                    let locus = Locus { gpu: Some(gpu.id), ..Locus::default() };
                    notes.contradiction(gpu.offset, locus, message);
                }
            }
        }
    }
}

const _: () = assert!(MOST < u32::MAX as i64);
