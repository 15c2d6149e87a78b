//! `msccl bound`: how fast a collective can be at best on a machine.

use msccl_bounds::SwitchModel;
use msccl_collective::Rank;
use msccl_topology::cluster::Cluster;
use serde::Serialize;

use crate::args::{BoundArgs, Format, SwitchesName};
use crate::bound::json::{LeastTimeJson, LimitsJson};
use crate::bound::{Limits, title, words};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::size::ByteSize;
use crate::table::{Align, Table};

/// Finds the bounds, checks their witnesses, and shows them.
pub fn bound(args: &BoundArgs, output: &mut Output) -> Result<Exit> {
    let cluster = args.cluster.cluster(output)?.ok_or_else(|| {
        let what = "expected a machine to bound it on, found none";
        Failure::new(format!("{what}; give --topo, such as --topo hgx-h100-8"))
    })?;
    let kind = args.collective.rooted_at(Rank(args.root));
    let switches = match args.switches {
        SwitchesName::Forward => SwitchModel::Forward,
        SwitchesName::Compute => SwitchModel::Compute,
    };
    let limits = Limits::of(&cluster, kind, switches)?;
    match args.report.format {
        Format::Human => print(args, &cluster, &limits, output),
        Format::Json => output.json(&BoundJson {
            limits: limits.to_json(&cluster),
            sizes: args.size.iter().map(|size| row(*size, &limits)).collect(),
        }),
    }
    Ok(Exit::Success)
}

fn print(args: &BoundArgs, cluster: &Cluster, limits: &Limits, output: &mut Output) {
    let Limits { bound, optimum, latency } = limits;
    let ranks = cluster.gpus().count();
    output.line(format_args!("{} over {ranks} ranks on {}", bound.kind, title(cluster)));
    output.line("");
    let time = words::seconds_per_gb(bound.seconds_per_byte);
    let most = bound.gb_per_s();
    output.line(format_args!("bandwidth  at least {time}, which is {most:.1} GB/s"));
    output.detail(format_args!("           {}", words::witness(cluster, bound)));
    output.detail(format_args!("           {}", words::optimum(cluster, optimum)));
    if let Some(remark) = words::nics_of_one_node(cluster) {
        output.detail(format_args!("           {remark}"));
    }
    let us = words::rounded(latency.nanoseconds as f64 / 1e3);
    let way = limits.latency_way(cluster);
    let way: Vec<_> = way.iter().map(|at| words::name(cluster, *at)).collect();
    output.line(format_args!("latency    at least {us} µs"));
    output.detail(format_args!("           by {}", way.join(" > ")));
    if !args.size.is_empty() {
        output.line("");
        sizes(args, limits).lines().into_iter().for_each(|line| output.line(line));
    }
}

fn sizes(args: &BoundArgs, limits: &Limits) -> Table {
    let columns = [("size", Align::Right), ("at least", Align::Right), ("by", Align::Left)];
    let mut table = Table::new(&columns);
    for size in &args.size {
        let least = limits.least_time(size.0);
        let time = format!("{:.1} µs", least.us);
        table.row([size.to_string(), time, least.by.name().to_owned()]);
    }
    table
}

fn row(size: ByteSize, limits: &Limits) -> LeastTimeJson {
    LeastTimeJson::of(size.0, limits.least_time(size.0))
}

/// The bounds, and what they mean for calls of some sizes.
#[derive(Serialize)]
struct BoundJson {
    #[serde(flatten)]
    limits: LimitsJson,
    sizes: Vec<LeastTimeJson>,
}
