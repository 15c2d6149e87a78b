//! Which instance of a program is meant: the arguments that stand where a runtime's facts will.

use std::str::FromStr;

use clap::Args;
use msccl_collective::Protocol;

use super::{ClusterArgs, PlacementName, values};
use crate::size::Scaled;

/// Which instance of a program is meant.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Instance")]
pub struct LaunchArgs {
    /// Set a parameter of the algorithm; may be given several times
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE")]
    pub define: Vec<Setting>,
    /// Number of ranks [default: the GPUs of --topo, or what the program says]
    #[arg(long, value_name = "N", value_parser = values::ranks)]
    pub ranks: Option<u32>,
    /// Ranks on one node [default: the GPUs of a node of --topo, or what the program says]
    #[arg(long, value_name = "G", value_parser = values::ranks)]
    pub per_node: Option<u32>,
    /// Which algorithm of the file; the last one if not given
    #[arg(long, value_name = "NAME")]
    pub algorithm: Option<String>,
    /// Which collective: picks an algorithm of the file, or says what a custom one in XML computes
    #[arg(long, value_name = "NAME")]
    pub collective: Option<String>,
    /// Copies of the program, each on its part of every chunk
    #[arg(long, value_name = "K", value_parser = values::count)]
    pub instances: Option<u32>,
    /// How messages are laid out: Simple, LL or LL128
    #[arg(long, value_name = "NAME")]
    pub protocol: Option<Protocol>,
    /// Whether input and output share memory
    #[arg(long, value_name = "WHERE")]
    pub placement: Option<PlacementName>,
    /// What it is compiled for; its GPUs are the ranks.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `name=value`: a parameter and its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// The parameter.
    pub name: String,
    /// Its value.
    pub value: i64,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or_else(|| {
            format!("expected NAME=VALUE, found `{text}`; write for instance C=4")
        })?;
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Err(format!("`{text}` names no parameter; write for instance C=4"));
        }
        Ok(Self { name, value: integer(value.trim())? })
    }
}

/// An integer as the language writes it.
fn integer(text: &str) -> Result<i64, String> {
    let plain = text.replace('_', "").parse().ok();
    let sized = || {
        let Scaled { whole, rest } = Scaled::parse(text).ok()?;
        i64::try_from(whole).ok().filter(|_| !rest)
    };
    plain.or_else(sized).ok_or_else(|| {
        format!("expected an integer, found `{text}`; parameters are integers, such as 4 or 64KiB")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_names_with_integers() {
        let setting = |name: &str, value| Ok(Setting { name: name.to_owned(), value });
        assert_eq!("C=4".parse(), setting("C", 4));
        assert_eq!("k = -1_000".parse(), setting("k", -1000));
        assert_eq!("cut=64KiB".parse(), setting("cut", 65536));
        assert_eq!("cut=1.5K".parse(), setting("cut", 1536));
        for wrong in ["C", "=4", "C=", "C=four", "C=1=2", "C=1.5", "C=0.3K"] {
            assert!(wrong.parse::<Setting>().is_err(), "{wrong}");
        }
    }
}
