//! `<gpu>` with its thread blocks.

use msccl_collective::Rank;
use msccl_ir::RankProgram;

use super::algo::Head;
use super::attributes::Attributes;
use super::cursor::{Cursor, Element};
use super::places::RankPlaces;
use super::step::FileRow;
use super::{ReadError, resolve};
use crate::xml::Locus;
use crate::xml::vocabulary::{gpu, tb};

/// Most thread blocks of one rank, and most steps of one thread block: a hundred times what any
/// runtime takes, and little enough memory.
const MOST_CHILDREN: usize = 1 << 20;

/// One `<gpu>`.
pub(super) struct Gpu {
    pub id: u32,
    pub offset: usize,
    /// `i_chunks`, `o_chunks`, `s_chunks`.
    pub chunks: [u32; 3],
    pub program: RankProgram,
    pub places: RankPlaces,
    /// One more than the highest channel that has links.
    pub channels: u32,
}

/// One `<tb>`.
pub(super) struct Block {
    pub id: u32,
    pub offset: usize,
    pub channel: u32,
    pub send: Option<Rank>,
    pub receive: Option<Rank>,
    pub rows: Vec<FileRow>,
}

impl Gpu {
    /// Reads a `<gpu>` and all that it holds.
    pub(super) fn read<'a>(
        cursor: &mut Cursor<'a>,
        element: &Element<'a>,
        head: &Head,
    ) -> Result<Self, ReadError> {
        let values = Attributes::gather(cursor, element, gpu::NAME, &gpu::TABLE)?;
        let id = values.index(cursor, gpu::ID)?;
        cursor.locus.gpu = Some(id);
        let mut chunks = [0; 3];
        for (chunks, at) in chunks.iter_mut().zip([gpu::I_CHUNKS, gpu::O_CHUNKS, gpu::S_CHUNKS]) {
            *chunks = values.index_or_zero(cursor, at)?;
        }
        let found_before = cursor.notes.found();
        let mut blocks = Vec::new();
        while let Some(child) = cursor.next_child()? {
            if child.name() != tb::NAME.as_bytes() {
                cursor.ignore(&child)?;
                continue;
            }
            refuse_crowd(cursor, &child, blocks.len(), "thread blocks of one <gpu>")?;
            blocks.push(Block::read(cursor, &child, id, head)?);
            cursor.locus = Locus { gpu: Some(id), ..Locus::default() };
        }
        let linked = blocks.iter().filter(|block| block.send.is_some() || block.receive.is_some());
        let channels = linked.map(|block| block.channel + 1).max().unwrap_or(0);
        let (program, places) =
            resolve::resolve(blocks, id, chunks, &mut cursor.notes, found_before);
        Ok(Self { id, offset: element.offset, chunks, program, places, channels })
    }
}

fn refuse_crowd<'a>(
    cursor: &Cursor<'a>,
    child: &Element<'a>,
    before: usize,
    what: &str,
) -> Result<(), ReadError> {
    if before < MOST_CHILDREN {
        return Ok(());
    }
    let expected = format!("at most {MOST_CHILDREN} {what}");
    Err(cursor.error(child.offset, expected, "more", "no runtime takes a hundredth of them"))
}

impl Block {
    fn read<'a>(
        cursor: &mut Cursor<'a>,
        element: &Element<'a>,
        gpu: u32,
        head: &Head,
    ) -> Result<Self, ReadError> {
        let values = Attributes::gather(cursor, element, tb::NAME, &tb::TABLE)?;
        let id = values.index(cursor, tb::ID)?;
        cursor.locus.tb = Some(id);
        let send = peer(cursor, &values, tb::SEND, gpu, head)?;
        let receive = peer(cursor, &values, tb::RECV, gpu, head)?;
        let channel = channel(cursor, &values, send.is_some() || receive.is_some())?;
        let mut rows = Vec::new();
        while let Some(child) = cursor.next_child()? {
            match child.name() {
                b"step" => {
                    refuse_crowd(cursor, &child, rows.len(), "steps of one <tb>")?;
                    cursor.locus.step = u32::try_from(rows.len()).ok();
                    rows.push(FileRow::read(cursor, &child, rows.len())?);
                    cursor.skip()?;
                    cursor.locus.step = None;
                }
                b"op" => {
                    let advice =
                        "no runtime reads <op>; write the file in the toolkit's old format";
                    return Err(cursor.error(child.offset, "<step>", "<op>", advice));
                }
                _ => cursor.ignore(&child)?,
            }
        }
        Ok(Self { id, offset: element.offset, channel, send, receive, rows })
    }
}

/// The channel of a thread block. One that has no links needs none, and then any will do.
fn channel<'a, const N: usize>(
    cursor: &mut Cursor<'a>,
    values: &Attributes<'a, N>,
    has_links: bool,
) -> Result<u32, ReadError> {
    if !values.has(tb::CHAN) {
        return values.index_or_zero(cursor, tb::CHAN);
    }
    let stated = values.integer(cursor, tb::CHAN)?;
    let Ok(channel) = u32::try_from(stated) else {
        if has_links {
            let message = "its links need a channel, and `chan` is -1; give it a number from 0 on";
            let offset = values.offset_of(cursor, tb::CHAN);
            cursor.notes.contradiction(offset, cursor.locus, message);
        } else {
            cursor.notes.warning(
                "`chan` of a thread block without links is -1, which the interpreters of others \
                 refuse; give it a number from 0 on for them"
                    .to_owned(),
            );
        }
        return Ok(0);
    };
    Ok(channel)
}

/// The peer that an attribute names. A peer that cannot be is a contradiction, and no peer.
fn peer<'a, const N: usize>(
    cursor: &mut Cursor<'a>,
    values: &Attributes<'a, N>,
    at: usize,
    gpu: u32,
    head: &Head,
) -> Result<Option<Rank>, ReadError> {
    let Ok(peer) = u32::try_from(values.integer_or(cursor, at, -1)?) else { return Ok(None) };
    let message = match peer {
        peer if peer == gpu => {
            "a thread block cannot be its own peer; use `cpy` or `re`".to_owned()
        }
        peer if peer >= head.ranks => {
            format!("gpu {peer} is named as a peer, but there are {} gpus", head.ranks)
        }
        peer => return Ok(Some(Rank(peer))),
    };
    let offset = values.offset_of(cursor, at);
    cursor.notes.contradiction(offset, cursor.locus, message);
    Ok(None)
}
