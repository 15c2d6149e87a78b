//! A TCP connection as a rail.
//!
//! A write is a header of 16 bytes (`to`, `bytes`, `tag`, little-endian) and its bytes. Posts are
//! gathered and go out together with the next [`Rail::poll`]; bytes that come in are read straight
//! into memory, apart from those of short messages, which come together with headers. A write that
//! does not lie inside the memory breaks the rail before a byte of it is written; a post that does
//! not, before it goes out.
//!
//! `RailEvent::Sent` means that the kernel has the bytes. They may never arrive, if the connection
//! breaks.

use std::collections::VecDeque;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use msccl_fabric::Endurance;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::region::Region;
use crate::endpoint::Memory;
use crate::rail::{Broken, Posted, Rail, RailEvent, Wake, Write};

const HEADER_BYTES: usize = 16;

/// Posts that wait for the kernel at most.
const POSTS: usize = 128;

/// Posts that one system call takes at most.
const POSTS_AT_ONCE: usize = 32;

/// Bytes that are read beside those of the message at hand; longer messages are not copied.
const STAGE_BYTES: usize = 4096;

/// Bytes that one call of `poll` reads or writes at most, so that no peer keeps others waiting.
const TURN_BYTES: usize = 4 << 20;

/// A connection to a peer.
pub(crate) struct TcpRail {
    stream: TcpStream,
    description: String,
    memory: Region,
    posts: VecDeque<Write>,
    /// Bytes of the first post, its header included, that the kernel has.
    written: usize,
    stage: Box<[u8; STAGE_BYTES]>,
    /// What is in the stage and was not looked at.
    staged: (usize, usize),
    /// The write whose bytes are coming in, and how many of them have.
    coming: Option<(Write, usize)>,
    /// None if the connection is over already.
    endurance: Option<Endurance>,
    broken: Option<String>,
}

impl TcpRail {
    /// `stream` must not block. It outlasts whatever is shorter than `silence`.
    pub(crate) fn new(
        stream: TcpStream,
        memory: Arc<dyn Memory>,
        description: String,
        silence: Duration,
    ) -> Self {
        let (posts, stage) = (VecDeque::new(), Box::new([0; STAGE_BYTES]));
        let memory = Region::new(memory);
        let (written, staged, coming) = (0, (0, 0), None);
        let (endurance, broken) = match Endurance::new(&stream, silence) {
            Ok(endurance) => (Some(endurance), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Self {
            stream,
            description,
            memory,
            posts,
            written,
            stage,
            staged,
            coming,
            endurance,
            broken,
        }
    }

    /// Hands posts to the kernel.
    fn write(&mut self, events: &mut Vec<RailEvent>) -> Result<(), String> {
        let mut left = TURN_BYTES;
        while !self.posts.is_empty() && left > 0 {
            let Some(written) = self.write_once()? else { return Ok(()) };
            left = left.saturating_sub(written);
            self.written += written;
            while let Some(post) = self.posts.front()
                && self.written >= HEADER_BYTES + post.bytes as usize
            {
                self.written -= HEADER_BYTES + post.bytes as usize;
                self.posts.pop_front();
                self.memory.sent();
                events.push(RailEvent::Sent);
            }
        }
        Ok(())
    }

    /// How many bytes the kernel has taken; `None` if it has no room.
    fn write_once(&mut self) -> Result<Option<usize>, String> {
        let mut headers = [[0; HEADER_BYTES]; POSTS_AT_ONCE];
        let mut slices = [IoSlice::new(&[]); 2 * POSTS_AT_ONCE];
        let posts = self.posts.iter().take(POSTS_AT_ONCE);
        let count = posts.len();
        let places = headers.iter_mut().zip(slices.chunks_exact_mut(2));
        for ((index, post), (place, pair)) in posts.enumerate().zip(places) {
            let bytes = self.memory.outgoing(index, post);
            let bytes = bytes.ok_or("a post has lost its bytes")?;
            *place = header(post);
            (pair[0], pair[1]) = (IoSlice::new(place), IoSlice::new(bytes));
        }
        let mut slices = &mut slices[..2 * count];
        IoSlice::advance_slices(&mut slices, self.written);
        loop {
            // Without the flag the end of the peer would also be the end of programs in C, by
            // SIGPIPE.
            let flags = SendFlags::NOSIGNAL;
            return match sendmsg(&self.stream, slices, &mut SendAncillaryBuffer::default(), flags) {
                Ok(written) => Ok(Some(written)),
                Err(Errno::AGAIN) => Ok(None),
                Err(Errno::INTR) => continue,
                Err(error) => Err(std::io::Error::from(error).to_string()),
            };
        }
    }

    /// Takes in what has come.
    fn read(&mut self, events: &mut Vec<RailEvent>) -> Result<(), String> {
        let mut left = TURN_BYTES;
        while left > 0 {
            let Some(read) = self.read_once()? else { return Ok(()) };
            left = left.saturating_sub(read);
            while self.digest(events)? {}
        }
        Ok(())
    }

    /// Reads into the message at hand and then the stage, which is empty. `None` if nothing has
    /// come.
    fn read_once(&mut self) -> Result<Option<usize>, String> {
        let (start, end) = self.staged;
        self.stage.copy_within(start..end, 0);
        let kept = end - start;
        let direct = match &self.coming {
            Some((write, got)) => self.memory.incoming(write, *got),
            None => &mut [],
        };
        let direct_bytes = direct.len();
        let mut slices = [IoSliceMut::new(direct), IoSliceMut::new(&mut self.stage[kept..])];
        self.staged = (0, kept);
        let read = loop {
            match (&self.stream).read_vectored(&mut slices) {
                Ok(0) => return Err("the peer has closed the connection".to_owned()),
                Ok(read) => break read,
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => return Ok(None),
                    ErrorKind::Interrupted => {}
                    _ => return Err(error.to_string()),
                },
            }
        };
        if let Some((_, got)) = &mut self.coming {
            *got += read.min(direct_bytes);
        }
        self.staged.1 += read.saturating_sub(direct_bytes);
        Ok(Some(read))
    }

    /// Finishes the message at hand or begins the next one, from what is staged. False if that
    /// takes more.
    fn digest(&mut self, events: &mut Vec<RailEvent>) -> Result<bool, String> {
        let (start, end) = self.staged;
        let Some((write, got)) = &mut self.coming else {
            let Some(header) = self.stage[start..end].first_chunk() else { return Ok(false) };
            let write = from_header(header);
            self.memory.expect(&write)?;
            self.coming = Some((write, 0));
            self.staged.0 += HEADER_BYTES;
            return Ok(true);
        };
        let missing = write.bytes as usize - *got;
        let here = missing.min(end - start);
        if let Some(room) = self.memory.incoming(write, *got).get_mut(..here) {
            room.copy_from_slice(&self.stage[start..start + here]);
        }
        *got += here;
        self.staged.0 += here;
        if here < missing {
            return Ok(false);
        }
        self.memory.landed(write)?;
        events.push(RailEvent::Arrived { tag: write.tag, bytes: write.bytes });
        self.coming = None;
        Ok(true)
    }

    fn fail<T>(&mut self, why: String) -> Result<T, Broken> {
        self.broken = Some(why.clone());
        Err(Broken { why })
    }
}

impl Rail for TcpRail {
    fn describe(&self) -> String {
        self.description.clone()
    }

    fn post(&mut self, write: &Write) -> Result<Posted, Broken> {
        if let Some(why) = &self.broken {
            return Err(Broken { why: why.clone() });
        }
        if self.posts.len() >= POSTS {
            return Ok(Posted::Full);
        }
        match self.memory.take(write) {
            Ok(()) => self.posts.push_back(*write),
            Err(why) => return self.fail(why),
        }
        Ok(Posted::Yes)
    }

    fn poll(&mut self, events: &mut Vec<RailEvent>) -> Result<(), Broken> {
        if let Some(why) = &self.broken {
            return Err(Broken { why: why.clone() });
        }
        let Self { endurance, stream, .. } = self;
        endurance.iter_mut().for_each(|endurance| endurance.look_after(stream));
        // What has come counts even if nothing can be sent any more.
        let written = self.write(events);
        self.read(events).and(written).or_else(|why| self.fail(why))
    }

    fn close(&mut self) {
        self.broken.get_or_insert_with(|| "it was closed".to_owned());
        // It may have ended by itself.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn wake(&self) -> Option<Wake<'_>> {
        Some(Wake { descriptor: self.stream.as_fd(), writable: !self.posts.is_empty() })
    }
}

fn header(write: &Write) -> [u8; HEADER_BYTES] {
    let Write { from: _, to, bytes, tag } = *write;
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(&to.to_le_bytes());
    header[8..12].copy_from_slice(&bytes.to_le_bytes());
    header[12..].copy_from_slice(&tag.to_le_bytes());
    header
}

fn from_header(header: &[u8; HEADER_BYTES]) -> Write {
    let header = u128::from_le_bytes(*header);
    Write { from: 0, to: header as u64, bytes: (header >> 64) as u32, tag: (header >> 96) as u32 }
}
