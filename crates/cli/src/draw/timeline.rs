//! A run as bars over time.
use super::RankFilter;
use crate::args::Picture;
use crate::size::ByteSize;
use crate::subject::Subject;

/// tbd
pub fn timeline(_subject: &Subject, _size: ByteSize, _picture: Picture, _filter: &RankFilter) -> Result<String, String> {
    Err("not yet".to_owned())
}
