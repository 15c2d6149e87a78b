//! What is written reads back the same, in every format.

#![deny(unsafe_code)]

use msccl_collective::{
    Buffer, Channel, Collective, Kind, Placement, Protocol, Rank, SizeRange, Slot,
};
use msccl_interchange::json;
use msccl_interchange::xml::{self, Dialect};
use msccl_ir::{Algorithm, Place, RankProgram, Step, ThreadBlock, text};
use msccl_testkit::random::tapes;
use msccl_testkit::random::tapes::{anything, expressible, tapes};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

fn through_xml(algorithm: &Algorithm, dialect: Dialect) {
    let written = xml::write(algorithm, dialect).unwrap_or_else(|error| panic!("{error}"));
    let read = xml::read(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(read.contradictions, [], "{written}");
    assert_eq!(read.warnings, [""; 0], "{written}");
    assert_eq!(read.dialect, dialect);
    assert_eq!(read.algorithm, *algorithm, "{written}");
}

fn through_json(algorithm: &Algorithm) {
    let written = json::write(algorithm);
    let read = json::read(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(read, *algorithm, "{written}");
}

fn through_text(algorithm: &Algorithm) {
    let printed = text::print(algorithm);
    let parsed = text::parse(&printed).unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(parsed, *algorithm, "{printed}");
}

proptest! {
    #![proptest_config(tapes::config())]

    #[test]
    fn anything_through_text_and_json(mut tape in tapes()) {
        let algorithm = anything(&mut tape);
        through_text(&algorithm);
        through_json(&algorithm);
    }

    #[test]
    fn msccl_through_every_format(mut tape in tapes()) {
        let algorithm = expressible(&mut tape, Dialect::Msccl);
        through_xml(&algorithm, Dialect::Msccl);
        through_text(&algorithm);
        through_json(&algorithm);
    }

    #[test]
    fn executor_through_xml(mut tape in tapes()) {
        through_xml(&expressible(&mut tape, Dialect::Executor), Dialect::Executor);
    }
}

/// A test of random algorithms is worth what its generator reaches.
#[test]
fn the_generator_reaches_every_shape() {
    let mut runner = TestRunner::deterministic();
    let mut reached = std::collections::BTreeSet::new();
    for _ in 0..400 {
        let mut tape = tapes().new_tree(&mut runner).unwrap().current();
        let algorithm = expressible(&mut tape, Dialect::Msccl);
        reached.insert(algorithm.collective.name().to_owned());
        for (_, _, block) in algorithm.thread_blocks() {
            reached.extend(block.steps.iter().map(|step| step.kind().abbreviation().to_owned()));
        }
    }
    let shapes = ["nop", "s", "r", "cpy", "re", "rcs", "rrc", "rrs", "rrcs"];
    for shape in shapes.iter().chain(&["allreduce", "alltoall", "reducescatter", "reduce", "next"])
    {
        assert!(reached.contains(*shape), "{shape} is not among {reached:?}");
    }
}

/// A ring all-gather, in place.
fn ring(ranks: u32) -> Algorithm {
    let programs = (0..ranks).map(|rank| {
        let (next, previous) = (Rank((rank + 1) % ranks), Rank((rank + ranks - 1) % ranks));
        let steps = (0..ranks).map(|turn| {
            let slot = Place::Local(Slot::new(Buffer::Output, (rank + ranks - turn) % ranks));
            let mut step = Step { count: 1, ..Step::default() };
            step.sources.push(if turn == 0 { slot } else { Place::Link(previous) });
            step.destinations.extend((turn > 0).then_some(slot));
            step.destinations.extend((turn + 1 < ranks).then_some(Place::Link(next)));
            step
        });
        let block = ThreadBlock {
            channel: Channel(0),
            sends: vec![next],
            receives: vec![previous],
            steps: steps.collect(),
        };
        RankProgram { scratch_chunks: 0, thread_blocks: vec![block] }
    });
    Algorithm {
        name: "ring".to_owned(),
        collective: Collective { kind: Kind::AllGather, ranks, chunks: 1 },
        placement: Placement::InPlace,
        protocol: Protocol::Ll128,
        sizes: SizeRange { min_bytes: 0, max_bytes: Some((1 << 27) - 1) },
        threads: None,
        ranks: programs.collect(),
    }
}

#[test]
fn a_ring_through_every_format() {
    for ranks in [2, 3, 16] {
        let ring = ring(ranks);
        through_text(&ring);
        through_json(&ring);
        through_xml(&ring, Dialect::Msccl);
        through_xml(&ring, Dialect::Executor);
    }
}

#[test]
fn a_ring_is_written_as_the_public_toolkit_writes_it() {
    let expected = r#"<algo name="ring" proto="LL128" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="1" minBytes="0" maxBytes="134217728">
  <gpu id="0" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="1" recv="1" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="r" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="1" o_chunks="2" s_chunks="0">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="o" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="r" srcbuf="o" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"#;
    assert_eq!(xml::write(&ring(2), Dialect::Msccl).unwrap(), expected);
}
