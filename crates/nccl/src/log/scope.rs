//! What a communicator says in the log.

use std::sync::Arc;

use msccl_fabric as fabric;
use msccl_proxy as proxy;
use msccl_runtime as runtime;

use super::{Subsystem, info, show, warn_at};
use crate::session;

/// The log of one communicator: of its runtime, its fabric and its proxy.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// The device of its rank.
    pub device: i32,
}

impl Scope {
    /// Says `text`.
    pub fn info(self, subsystem: Subsystem, text: std::fmt::Arguments<'_>) {
        info(subsystem, self.device, text);
    }

    /// As the fabric takes it.
    pub fn for_fabric(self) -> Arc<dyn fabric::Log> {
        Arc::new(self)
    }

    /// As the proxy takes it.
    pub fn for_proxy(self) -> Arc<dyn proxy::Log> {
        Arc::new(self)
    }

    /// As the runtime takes it.
    pub fn for_runtime(self) -> Arc<dyn runtime::Log> {
        Arc::new(self)
    }
}

impl fabric::Log for Scope {
    fn event(&self, event: &fabric::Event) {
        match event {
            fabric::Event::RootListens { address, interface }
            | fabric::Event::RankListens { rank: _, address, interface } => {
                let name = interface.as_deref().unwrap_or("address");
                let (ip, port) = (address.ip(), address.port());
                let text = format_args!("Bootstrap: Using {name}:{ip}<{port}>");
                self.info(Subsystem::Bootstrap, text);
            }
            event if event.is_warning() => {
                warn_at(self.device, "fabric", &event.to_string());
            }
            event => self.info(Subsystem::Bootstrap, format_args!("{event}")),
        }
    }
}

impl proxy::Log for Scope {
    fn event(&self, event: &proxy::Event) {
        match event.is_warning() {
            true => warn_at(self.device, "proxy", &event.to_string()),
            false => self.info(Subsystem::Net, format_args!("{event}")),
        }
    }
}

impl runtime::Log for Scope {
    fn event(&self, event: &runtime::Event) {
        match event {
            runtime::Event::HangReport(report) => show(self.device, report),
            runtime::Event::Unmet(line) => session::say_once(self.device, line),
            runtime::Event::Failed(_) => {
                warn_at(self.device, "runtime", &event.to_string());
            }
            runtime::Event::Ready { .. }
            | runtime::Event::Nodes(_)
            | runtime::Event::Loaded(_)
            | runtime::Event::Order(_)
            | runtime::Event::Specialised(_)
            | runtime::Event::Unspecialised(_)
            | runtime::Event::Serves { .. }
            | runtime::Event::PassedOver { .. } => {
                self.info(Subsystem::Init, format_args!("{event}"));
            }
        }
    }
}
