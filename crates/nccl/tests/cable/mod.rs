//! Two network namespaces joined by a cable: two hosts in one, as far as the network goes.

use std::process::Command;

/// The namespaces; removed on drop.
pub struct Cable([String; 2]);

impl Cable {
    /// The address of each host.
    pub const ADDRESSES: [&str; 2] = ["10.231.18.1", "10.231.18.2"];

    /// Lays the cable; the text says why that is not possible here.
    pub fn new() -> Result<Self, String> {
        let cable = Self(["a", "b"].map(|end| format!("msccl-nccl-{}-{end}", std::process::id())));
        let [a, b] = &cable.0;
        ip(&["netns", "add", a])?;
        ip(&["netns", "add", b])?;
        ip(&["-n", a, "link", "add", "eth7", "type", "veth", "peer", "eth7", "netns", b])?;
        for (namespace, address) in cable.0.iter().zip(Self::ADDRESSES) {
            ip(&["-n", namespace, "addr", "add", &format!("{address}/24"), "dev", "eth7"])?;
            ip(&["-n", namespace, "link", "set", "lo", "up"])?;
            ip(&["-n", namespace, "link", "set", "eth7", "up"])?;
        }
        Ok(cable)
    }

    /// A command that runs `program` on one of the hosts.
    pub fn command(&self, host: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[host], program]);
        command
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.0.iter().for_each(|namespace| drop(ip(&["netns", "del", namespace])));
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output();
    let output = output.map_err(|error| format!("`ip` cannot be run: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
