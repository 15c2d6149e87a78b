//! The dialling end of a connection over TCP: connect, and prove to each other who one is.

use std::io;
use std::net::{SocketAddr, TcpStream};

use crate::abort::Patience;
use crate::handshake::{CHALLENGE_BYTES, Dialler, Purpose, Session};
use crate::key::Key;
use crate::socket::{self, Failure};

/// A connection to whoever listens at `address` and knows `key`, for `purpose`.
pub(crate) fn dial(
    address: SocketAddr,
    key: &Key,
    purpose: Purpose,
    patience: &Patience,
) -> Result<(TcpStream, Session), Failure> {
    let stream = socket::connect_once(address, patience)?;
    let session = prove(&stream, key, purpose, patience)?;
    Ok((stream, session))
}

/// The handshake over `stream`.
pub(crate) fn prove(
    stream: &TcpStream,
    key: &Key,
    purpose: Purpose,
    patience: &Patience,
) -> Result<Session, Failure> {
    let dialler = Dialler::new(key, purpose).map_err(io::Error::other)?;
    socket::send_all(stream, dialler.opening(), patience)?;
    let mut challenge = [0; CHALLENGE_BYTES];
    socket::receive_exact(stream, &mut challenge, patience)?;
    let proof = dialler.prove(&challenge, &[]).ok_or_else(impostor)?;
    socket::send_all(stream, &proof, patience)?;
    Ok(dialler.session(&challenge))
}

/// That whoever listens does not belong to the group.
pub(crate) fn impostor() -> io::Error {
    let text = "whoever listens there does not know the secret of this group";
    io::Error::new(io::ErrorKind::PermissionDenied, text)
}
