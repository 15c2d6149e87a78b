//! The tables of thread blocks and links.

use msccl_collective::{Channel, Rank};
use msccl_verify::Delivery;

use super::Corrupt;
use super::words::{Words, corrupt};
use crate::layout::{header, link, tb};
use crate::program::{Program, ThreadBlock};

/// What the tables say beside what a [`ThreadBlock`] holds.
pub(super) struct Tables {
    /// The word at which the steps of the first thread block start.
    pub(super) first_step: usize,
    /// Steps of each thread block.
    pub(super) steps: Vec<usize>,
}

/// Reads the thread block table and the link table; leaves the steps empty.
pub(super) fn decode_tables(words: Words<'_>, program: &mut Program) -> Result<Tables, Corrupt> {
    let tb_count = words.get(header::TB_COUNT as usize)?;
    let link_count = words.get(header::LINK_COUNT as usize)?;
    let link_table = words.table_end(header::LENGTH, tb_count, tb::LENGTH)?;
    let first_step = words.table_end(link_table, link_count, link::LENGTH)?;

    let mut steps = Vec::with_capacity(tb_count as usize);
    let mut first_link = 0_usize;
    for at in (header::LENGTH..link_table).step_by(tb::LENGTH) {
        let links = words.get(at + tb::LINKS as usize)?;
        let mut peers = |count: u32| {
            let first = first_link;
            first_link = first_link.saturating_add(count as usize);
            if first_link > link_count as usize {
                let message = format!("{count} links go beyond the table of {link_count}");
                return Err(corrupt(at + tb::LINKS as usize, message));
            }
            (first..first_link).map(|k| peer(words, link_table, k, program.ranks)).collect()
        };
        let receives: Vec<Rank> = peers(links & u32::from(u16::MAX))?;
        let sends: Vec<Rank> = peers(links >> tb::SENDS_SHIFT)?;
        let own = first_link - receives.len() - sends.len()..first_link;
        let deliveries = own.map(|link| delivery(words, link_table, link));
        let deliveries = deliveries.collect::<Result<_, _>>()?;
        let channel = Channel(words.get(at + tb::CHANNEL as usize)?);
        let block = ThreadBlock { channel, receives, sends, deliveries, steps: Vec::new() };
        program.thread_blocks.push(block);
        steps.push(words.get(at + tb::STEPS as usize)? as usize);
    }
    Ok(Tables { first_step, steps })
}

fn peer(words: Words<'_>, table: usize, link: usize, ranks: u32) -> Result<Rank, Corrupt> {
    let at = table + link * link::LENGTH + link::PEER as usize;
    words.below(at, "a peer", ranks).map(Rank)
}

fn delivery(words: Words<'_>, table: usize, link: usize) -> Result<Delivery, Corrupt> {
    let at = table + link * link::LENGTH + link::TRAITS as usize;
    match words.get(at)? & !link::OUT {
        0 => Ok(Delivery::Staged),
        link::PUSH => Ok(Delivery::Push),
        link::PULL => Ok(Delivery::Pull { acknowledgement: false }),
        bits if bits == link::PULL | link::ACK => Ok(Delivery::Pull { acknowledgement: true }),
        other => Err(corrupt(at, format!("expected one way of delivery, found {other:#x}"))),
    }
}
