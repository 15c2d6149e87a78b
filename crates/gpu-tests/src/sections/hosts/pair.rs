//! One communicator over two guests of the test bed, which share nothing but the wire between them:
//! this program runs in both, and each has half of the ranks.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use msccl_collective::{CollectiveKind, DataType};
use msccl_fabric::{self as fabric, Filter, UNIQUE_ID_BYTES, UniqueId};
use msccl_runtime::Settings;

use super::ring;
use super::test_bed::{Patience, RdmaTestBed, missing, variable};
use crate::Trouble;
use crate::case::Case;
use crate::hosts::Hosts;
use crate::sections::point_to_point::exchange;
use crate::sections::{Bench, Section};
use crate::tally::Tally;
use crate::world::World;

/// The section.
pub const SECTION: Section = Section {
    name: "rdma-pair",
    about: "one communicator over two guests of the test bed: collectives and sends, right on both",
    run,
};

/// Ranks of both guests.
const RANKS: u32 = 4;

/// How long the other guest may take to start.
const START: Duration = Duration::from_secs(60);

fn run(bench: &Bench, tally: &mut Tally) {
    let place = (variable("RDMA_RIG_GUEST"), std::env::var_os("RDMA_RIG_SHARED"));
    let (Some(guest), Some(shared)) = place else {
        return missing("needs tests/rdma-rig/run-pair".to_owned(), tally);
    };
    let Some(test_bed) = RdmaTestBed::find(1, tally) else { return };
    let file = PathBuf::from(shared).join("unique-id");
    let join = || join(bench, &test_bed, guest, &file);
    let Some(mut world) = tally.need(|| "a communicator of two guests".to_owned(), join) else {
        return;
    };
    for kind in [CollectiveKind::AllReduce, CollectiveKind::AllGather, CollectiveKind::AllToAll] {
        for (count, data_type) in
            [(1, DataType::U8), (1003, DataType::F16), (20_001, DataType::F32)]
        {
            let case = Case { count, data_type, ..Case::of(kind) };
            tally.check(|| case.describe(), || world.run(&case, ""));
        }
    }
    tally.check(|| "a ring".to_owned(), || exchange(&mut world, &ring(RANKS, 100_003)));
    tally.check(|| "all connections are queue pairs".to_owned(), || test_bed.log.all_over_rdma());
}

/// This guest's half of the ranks.
fn join(bench: &Bench, test_bed: &RdmaTestBed, guest: u32, file: &Path) -> Result<World, Trouble> {
    let mut settings = test_bed.settings(Patience::DEFAULT);
    settings.fabric.interface = fabric::Choice { filter: Filter::parse("=nic0"), family: None };
    let id = match guest {
        0 => publish(&settings, file)?,
        _ => learn(file)?,
    };
    let here = guest * RANKS / 2..(guest + 1) * RANKS / 2;
    let hosts = Hosts::pretended(2);
    World::join_part(id, here, hosts, &bench.machine, RANKS, &settings)
}

/// The rename makes the file whole or absent.
fn publish(settings: &Settings, file: &Path) -> Result<UniqueId, Trouble> {
    let id = UniqueId::create(&settings.fabric)?;
    let part = file.with_extension("part");
    fs::write(&part, id.to_bytes())?;
    fs::rename(part, file)?;
    Ok(id)
}

fn learn(file: &Path) -> Result<UniqueId, Trouble> {
    let begun = Instant::now();
    while !file.exists() {
        if begun.elapsed() > START {
            return Err(format!("guest 0 has written no {}", file.display()).into());
        }
        thread::sleep(Duration::from_millis(20));
    }
    let bytes: [u8; UNIQUE_ID_BYTES] =
        fs::read(file)?.try_into().map_err(|bytes: Vec<u8>| format!("{} bytes", bytes.len()))?;
    Ok(UniqueId::from_bytes(&bytes)?)
}
