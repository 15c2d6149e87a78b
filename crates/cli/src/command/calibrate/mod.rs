//! `msccl calibrate`: rates of the cost model from measurements, and how near estimates come.

mod accuracy;
mod measure;
mod picture;
mod points;

use msccl_bench::tune;
use msccl_registry::Shape;
use msccl_select::Hardware;
use msccl_simulate::model::{
    Calibration, Effort, KernelKind, Measured, Origin, Rates, fit, log_error,
};
use msccl_topology::cluster::presets::hgx;

use crate::args::{CalibrateArgs, Format};
use crate::artifact;
use crate::calibration::calibration_in;
use crate::clock::today;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::input::Input;
use crate::output::Output;
use crate::progress::Progress;
use points::Point;

/// Fits or checks, and says how near estimates come.
pub fn calibrate(args: &CalibrateArgs, output: &mut Output) -> Result<Exit> {
    args.output.iter().try_for_each(artifact::expect_to_write)?;
    let checked = args.check.as_deref().map(calibration_in).transpose()?;
    let data = data(args, output)?;
    let points = points::of(&data)?;
    let ranks = points.first().map_or(0, |of| of.modelled.programs().len() as u32);
    let shape = Shape { ranks, per_node: ranks };
    let too_large = || Failure::new(format!("there is no estimate for {ranks} ranks"));
    let cluster = hgx(1, ranks).ok_or_else(too_large)?;
    let calibration = match checked {
        Some(calibration) => calibration,
        None => {
            let progress = Progress::start("fitting", output.is_quiet());
            let found = fitted(args, &data, &points, shape)?;
            drop(progress);
            found
        }
    };
    if let Some(path) = &args.output {
        artifact::write_text(path, &calibration.write())?;
    }
    let hardware = Hardware::calibrated(cluster, calibration.clone());
    let found = accuracy::of(&points, &calibration.algorithms, &hardware);
    if let Some(path) = &args.svg {
        artifact::write_text(path, &picture::svg(&found.held_out(), &hardware.source))?;
    }
    match args.report.format {
        Format::Human => accuracy::print(&found, &hardware, output),
        Format::Json => output.json(&found),
    }
    Ok(Exit::Success)
}

fn data(args: &CalibrateArgs, output: &mut Output) -> Result<Vec<tune::Data>> {
    if args.from.is_empty() {
        return measure::all(args, output);
    }
    let read = |file: &String| {
        let Input { name, text } = Input::read(file)?;
        tune::Data::parse(&text).map_err(|error| Failure::new(format!("{name}: {error}")))
    };
    args.from.iter().map(read).collect()
}

/// The rates that suit the named algorithms best.
fn fitted(
    args: &CalibrateArgs,
    data: &[tune::Data],
    points: &[Point],
    shape: Shape,
) -> Result<Calibration> {
    let named = |of: &&Point| args.algorithms.contains(&of.algorithm);
    let measured: Vec<Measured<'_>> = points.iter().filter(named).map(Point::measured).collect();
    if measured.is_empty() {
        let names = args.algorithms.join(", ");
        return Err(Failure::new(format!(
            "expected measurements of {names}, found none; choose others with --algorithms"
        )));
    }
    let too_large = || Failure::new(format!("there is no estimate for {} ranks", shape.ranks));
    let cluster = hgx(1, shape.ranks).ok_or_else(too_large)?;
    let rates = fit(&measured, &cluster, &Rates::assumed(), Effort::default());
    let errors = measured.iter().filter_map(|of| log_error(of, &cluster, &rates));
    let errors: Vec<f64> = errors.map(f64::abs).collect();
    let error = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let is_measured = |kind: &KernelKind| measured.iter().any(|of| of.execution.kernel == *kind);
    let kinds = KernelKind::ALL.into_iter().filter(is_measured);
    let origin = Origin {
        machine: data.first().map_or_else(String::new, |of| of.machine.clone()),
        date: data.first().map_or_else(today, |of| of.date.clone()),
        command: "msccl calibrate".to_owned(),
        cluster: cluster.name().to_owned(),
        algorithms: args.algorithms.clone(),
    };
    let kinds = kinds.map(|kind| kind.name().to_owned()).collect();
    Ok(Calibration::new(origin, measured.len(), kinds, error, rates))
}
