//! By which network interfaces ranks may find one another.

use msccl_fabric::{AddressFamily, Choice, Filter};

use super::{Reader, variable};

/// What the variables of `reader` say about network interfaces.
pub fn interface(reader: &mut Reader<'_>) -> Choice {
    let family = |text: &str| match text {
        "AF_INET" => Some(AddressFamily::V4),
        "AF_INET6" => Some(AddressFamily::V6),
        _ => None,
    };
    Choice {
        filter: reader.parse(&variable::SOCKET_IFNAME, Filter::parse),
        family: reader.parse(&variable::SOCKET_FAMILY, family),
    }
}
