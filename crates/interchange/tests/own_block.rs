//! Waits for steps of the waiting step's own thread block.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Also in the tests' own functions.

use msccl_interchange::xml;

/// Both ranks send, receive and add; the last step waits for step `awaited` of its own block. Step
/// 1 signals if `signals` is 1.
fn exchange(awaited: u32, signals: [u32; 3]) -> String {
    let [first, second, third] = signals;
    let gpu = |id: u32, peer: u32| {
        format!(
            r#"<gpu id="{id}" i_chunks="1" o_chunks="1" s_chunks="1">
<tb id="0" send="{peer}" recv="{peer}" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="{first}"/>
<step s="1" type="r" srcbuf="s" srcoff="0" dstbuf="s" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="{second}"/>
<step s="2" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="0" deps="{awaited}" hasdep="{third}"/>
</tb>
</gpu>
"#
        )
    };
    format!(
        r#"<algo name="own" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="1">
{}{}</algo>"#,
        gpu(0, 1),
        gpu(1, 0)
    )
}

#[test]
fn an_earlier_step_that_signals_may_be_waited_for() {
    let read = xml::read(&exchange(1, [0, 1, 0])).unwrap();
    assert_eq!(read.contradictions, []);
    let step = &read.algorithm.ranks[0].thread_blocks[0].steps[2];
    assert_eq!((step.waits.len(), step.waits[0].tb.0, step.waits[0].step.0), (1, 0, 1));
    let written = xml::write(&read.algorithm, xml::Dialect::Msccl).unwrap();
    assert_eq!(xml::read(&written).unwrap().algorithm, read.algorithm);
}

#[test]
fn a_step_that_never_signals_is_reported() {
    let read = xml::read(&exchange(1, [0, 0, 0])).unwrap();
    let found = read.contradictions[0].to_string();
    assert!(found.contains("waits for a step that does not signal"), "{found}");
}

#[test]
fn a_later_step_is_left_to_the_verifier() {
    let read = xml::read(&exchange(2, [0, 0, 1])).unwrap();
    assert_eq!(read.contradictions, []);
}
