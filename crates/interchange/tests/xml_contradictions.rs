//! Well-formed MSCCL XML that no interpreter runs right is read, and reported.

#![deny(unsafe_code)]
#![allow(clippy::unwrap_used)] // Also in the tests' own functions.

use msccl_interchange::xml;

const GOOD: &str = r#"<algo name="pair" proto="LL" nchannels="1" nchunksperloop="2" ngpus="2" coll="allreduce" inplace="1">
  <gpu id="0" i_chunks="2" o_chunks="0" s_chunks="2">
    <tb id="0" send="1" recv="1" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
      <step s="1" type="r" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
    </tb>
    <tb id="1" send="-1" recv="-1" chan="0">
      <step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="0" deps="1" hasdep="0"/>
      <step s="1" type="re" srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="1" depid="0" deps="1" hasdep="0"/>
      <step s="2" type="re" srcbuf="s" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
  <gpu id="1" i_chunks="2" o_chunks="0" s_chunks="2">
    <tb id="0" send="0" recv="0" chan="0">
      <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="1"/>
      <step s="1" type="rrc" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>
    </tb>
  </gpu>
</algo>
"#;

/// Replaces `from`, and expects these contradictions.
fn check(from: &str, to: &str, expected: &[&str]) {
    assert!(GOOD.contains(from), "{from}");
    let read = xml::read(&GOOD.replacen(from, to, 1)).unwrap();
    let found: Vec<_> = read.contradictions.iter().map(ToString::to_string).collect();
    assert_eq!(found, expected, "{from} → {to}");
}

#[test]
fn the_unchanged_file_has_no_contradiction() {
    assert_eq!(xml::read(GOOD).unwrap().contradictions, []);
}

#[test]
fn waits_must_name_a_step_that_signals() {
    let wait = r#"depid="0" deps="1" hasdep="0"/>
      <step s="2""#;
    let to = |ids: &str| wait.replace(r#"depid="0" deps="1""#, ids);
    check(
        wait,
        &to(r#"depid="5" deps="1""#),
        &["line 9, column 7 (gpu 0, tb 1, step 1): waits for tb 5, which does not exist"],
    );
    check(
        wait,
        &to(r#"depid="0" deps="9""#),
        &["line 9, column 7 (gpu 0, tb 1, step 1): waits for step 9 of tb 0, which has 2 steps"],
    );
    check(
        wait,
        &to(r#"depid="0" deps="0""#),
        &["line 9, column 7 (gpu 0, tb 1, step 1): waits for a step that does not signal: the \
             interpreter waits for a later step, or for ever; set the other step's `hasdep` to 1"],
    );
    check(
        wait,
        &to(r#"depid="0" deps="-1""#),
        &["line 9, column 97 (gpu 0, tb 1, step 1): waits for tb 0, but for no step of it; set \
             `deps`"],
    );
    check(
        wait,
        &to(r#"depid="1" deps="0""#),
        &["line 9, column 7 (gpu 0, tb 1, step 1): waits for step 0 of tb 1, which moves nothing \
             and never signals"],
    );
}

#[test]
fn ids_must_be_dense_and_unique() {
    check(
        r#"<tb id="1""#,
        r#"<tb id="2""#,
        &["line 7, column 5 (gpu 0, tb 2): there is no thread block 1; number them 0, 1, 2, …"],
    );
    check(
        r#"<gpu id="1""#,
        r#"<gpu id="0""#,
        &[
            "line 13, column 3 (gpu 0): a second gpu has this id",
            "line 14, column 22 (gpu 0, tb 0): a thread block cannot be its own peer; use `cpy` or \
             `re`",
            "line 14, column 31 (gpu 0, tb 0): a thread block cannot be its own peer; use `cpy` or \
             `re`",
        ],
    );
    check(
        r#"<gpu id="1""#,
        r#"<gpu id="7""#,
        &["line 13, column 3 (gpu 7): its id is not below the number of gpus, 2"],
    );
    check(
        r#"ngpus="2""#,
        r#"ngpus="3""#,
        &["line 1, column 1 (algo): ngpus is 3, but there is no gpu 2"],
    );
}

#[test]
fn peers_must_exist_and_be_others() {
    check(
        r#"send="0" recv="0""#,
        r#"send="1" recv="0""#,
        &["line 14, column 22 (gpu 1, tb 0): a thread block cannot be its own peer; use `cpy` or \
             `re`"],
    );
    check(
        r#"send="1" recv="1""#,
        r#"send="2" recv="1""#,
        &["line 3, column 22 (gpu 0, tb 0): gpu 2 is named as a peer, but there are 2 gpus"],
    );
    check(
        r#"send="0" recv="0""#,
        r#"send="0" recv="-1""#,
        &["line 16, column 7 (gpu 1, tb 0, step 1): a step of type `rrc`, but `recv` of its tb \
             is -1"],
    );
    check(
        r#"send="0" recv="0""#,
        r#"send="-1" recv="0""#,
        &["line 15, column 7 (gpu 1, tb 0, step 0): a step of type `s`, but `send` of its tb is \
             -1"],
    );
}

#[test]
fn no_ops_must_lend_their_wait() {
    check(
        r#"cnt="1" depid="0" deps="1""#,
        r#"cnt="1" depid="-1" deps="-1""#,
        &["line 8, column 7 (gpu 0, tb 1, step 0): no-ops must be followed by a step that waits \
             too; move the last no-op's wait into that step"],
    );
    // Others wait for a step behind it, which interpreters number otherwise than the file does.
    let first = r#"<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="s" dstoff="0" cnt="2" depid="-1" deps="-1" hasdep="0"/>"#;
    let idle = r#"<step s="0" type="nop" srcbuf="i" srcoff="-1" dstbuf="o" dstoff="-1" cnt="0" depid="-1" deps="-1" hasdep="0"/>"#;
    check(
        first,
        idle,
        &[
            "line 4, column 7 (gpu 0, tb 0, step 0): a no-op must wait for a step; give it one, or \
             leave it out",
            "line 4, column 7 (gpu 0, tb 0, step 0): no-ops must be followed by a step that waits \
             too; move the last no-op's wait into that step",
        ],
    );
}

#[test]
fn links_need_a_channel() {
    check(
        r#"send="1" recv="1" chan="0""#,
        r#"send="1" recv="-1" chan="-1""#,
        &["line 3, column 41 (gpu 0, tb 0): its links need a channel, and `chan` is -1; give it \
             a number from 0 on"],
    );
    check(
        r#"nchannels="1""#,
        r#"nchannels="0""#,
        &["line 1, column 1 (algo): nchannels is 0, but channel 0 is used; the runtime opens no \
             more than nchannels"],
    );
}

#[test]
fn sizes_must_agree() {
    check(
        r#"nchunksperloop="2""#,
        r#"nchunksperloop="4""#,
        &[
            "line 2, column 3 (gpu 0): i_chunks is 2, but nchunksperloop 4 means 4; the first \
             runtime refuses the file on this rank only",
            "line 13, column 3 (gpu 1): i_chunks is 2, but nchunksperloop 4 means 4; the first \
             runtime refuses the file on this rank only",
        ],
    );
    check(
        r#"i_chunks="2" o_chunks="0""#,
        r#"i_chunks="2" o_chunks="1""#,
        &["line 2, column 3 (gpu 0): o_chunks is 1, but nchunksperloop 2 means 2; the first \
             runtime refuses the file on this rank only"],
    );
    check(
        r#"chan="0""#,
        r#"chan="1""#,
        &["line 1, column 1 (algo): nchannels is 1, but channel 1 is used; the runtime opens no \
             more than nchannels"],
    );
    check(
        r#"i_chunks="2""#,
        r#"i_chunks="0""#,
        &[
            "line 9, column 7 (gpu 0, tb 1, step 1): writes i[0], but i_chunks of its gpu is 0",
            "line 10, column 7 (gpu 0, tb 1, step 2): writes i[1], but i_chunks of its gpu is 0",
        ],
    );
    check(
        r#"s_chunks="2""#,
        r#"s_chunks="1""#,
        &["line 5, column 7 (gpu 0, tb 0, step 1): writes s[0..2], but s_chunks of its gpu is 1"],
    );
    check(
        r#"inplace="1""#,
        r#"inplace="1" nthreads="33""#,
        &["line 1, column 112 (algo): 33 threads: the first runtime takes multiples of 32"],
    );
    check(
        r#"coll="allreduce""#,
        r#"coll="reduce" root="2""#,
        &["line 1, column 93 (algo): the root is gpu 2, but there are 2 gpus"],
    );
}

#[test]
fn some_call_must_be_served() {
    check(
        r#"inplace="1""#,
        r#"inplace="1" minBytes="0" maxBytes="0""#,
        &["line 1, column 125 (algo): the range from minBytes to maxBytes is empty, so the file \
             serves no call; maxBytes is excluded in the first runtime, included in the executor"],
    );
    check(
        r#"inplace="1""#,
        r#"inplace="1" minBytes="9" maxBytes="9""#,
        &["line 1, column 125 (algo): the range from minBytes to maxBytes is empty, so the file \
             serves no call; maxBytes is excluded in the first runtime, included in the executor"],
    );
    check(
        r#"inplace="1""#,
        r#"inplace="0" outofplace="0""#,
        &["line 1, column 114 (algo): serves calls neither in place nor out of place"],
    );
}

#[test]
fn places_must_have_an_offset_and_types_a_kernel() {
    check(
        r#"srcbuf="s" srcoff="0""#,
        r#"srcbuf="s" srcoff="-1""#,
        &["line 9, column 48 (gpu 0, tb 1, step 1): the place that this step uses has a negative \
             offset"],
    );
    check(
        r#"type="re""#,
        r#"type="ra""#,
        &["line 9, column 25 (gpu 0, tb 1, step 1): `ra` passes the first runtime's parser, but \
             its kernel has no such step and leaves the thread block there"],
    );
}
