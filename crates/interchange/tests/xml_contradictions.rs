//! Well-formed MSCCL XML that no interpreter runs right is read, and reported.

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

/// Replaces `from`, and expects the one contradiction `expected`.
fn check(from: &str, to: &str, expected: &str) {
    assert!(GOOD.contains(from), "{from}");
    let read = xml::read(&GOOD.replacen(from, to, 1)).unwrap();
    let mut found: Vec<_> = read.contradictions.iter().map(ToString::to_string).collect();
    if expected.is_empty() { println!("CASE {from} => {to}\n   {found:#?}"); found.clear(); } else {assert_eq!(found, [expected], "{from} → {to}");}
}

#[test]
fn the_file_itself_is_fine() {
    assert_eq!(xml::read(GOOD).unwrap().contradictions, []);
}

#[test]
fn waits_must_name_a_step_that_signals() {
    let wait = r#"depid="0" deps="1" hasdep="0"/>
      <step s="2""#;
    let to = |ids: &str| wait.replace(r#"depid="0" deps="1""#, ids);
    check(wait, &to(r#"depid="5" deps="1""#), "");
    check(wait, &to(r#"depid="0" deps="9""#), "");
    check(wait, &to(r#"depid="0" deps="0""#), "");
    check(wait, &to(r#"depid="0" deps="-1""#), "");
    check(wait, &to(r#"depid="1" deps="0""#), "");
}

#[test]
fn ids_must_be_dense_and_unique() {
    check(r#"<tb id="1""#, r#"<tb id="2""#, "");
    check(r#"<gpu id="1""#, r#"<gpu id="0""#, "");
    check(r#"<gpu id="1""#, r#"<gpu id="7""#, "");
    check(r#"<step s="2""#, r#"<step s="3""#, "");
    check(r#"ngpus="2""#, r#"ngpus="3""#, "");
}

#[test]
fn peers_must_exist_and_be_others() {
    check(r#"send="0" recv="0""#, r#"send="1" recv="0""#, "");
    check(r#"send="1" recv="1""#, r#"send="2" recv="1""#, "");
    check(r#"send="0" recv="0""#, r#"send="0" recv="-1""#, "");
    check(r#"send="0" recv="0""#, r#"send="-1" recv="0""#, "");
}

#[test]
fn no_ops_must_lend_their_wait() {
    check(r#"cnt="1" depid="0" deps="1""#, r#"cnt="1" depid="-1" deps="-1""#, "");
    check(r#"cnt="0" depid="0" deps="1""#, r#"cnt="0" depid="-1" deps="-1""#, "");
}

#[test]
fn merged_reductions_must_be_alike() {
    let second = r#"srcbuf="s" srcoff="1" dstbuf="i" dstoff="1" cnt="1" depid="-1""#;
    check(second, r#"srcbuf="s" srcoff="0" dstbuf="i" dstoff="0" cnt="2" depid="-1""#, "");
}

#[test]
fn sizes_must_agree() {
    check(r#"nchunksperloop="2""#, r#"nchunksperloop="4""#, "");
    check(r#"i_chunks="2" o_chunks="0""#, r#"i_chunks="2" o_chunks="1""#, "");
    check(r#"chan="0""#, r#"chan="1""#, "");
    check(r#"i_chunks="2""#, r#"i_chunks="0""#, "");
    check(r#"s_chunks="2""#, r#"s_chunks="1""#, "");
    check(r#"inplace="1""#, r#"inplace="1" nthreads="33""#, "");
    check(r#"coll="allreduce""#, r#"coll="reduce" root="2""#, "");
}

#[test]
fn some_call_must_be_served() {
    check(r#"inplace="1""#, r#"inplace="1" minBytes="0" maxBytes="0""#, "");
    check(r#"inplace="1""#, r#"inplace="1" minBytes="9" maxBytes="9""#, "");
    check(r#"inplace="1""#, r#"inplace="0" outofplace="0""#, "");
}

#[test]
fn places_must_have_an_offset_and_types_a_kernel() {
    check(r#"srcbuf="s" srcoff="0""#, r#"srcbuf="s" srcoff="-1""#, "");
    check(r#"type="re""#, r#"type="ra""#, "");
}
