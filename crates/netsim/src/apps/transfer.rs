//! Transfers of files: the fetcher and the publisher of `larder get` and `larder put` in virtual
//! time.

use crate::app::{App, Received, Sends};
use crate::apps::Unsigned;
use crate::error::ConfigError;
use larder_packet::{Data, Interest, Name};
use larder_transfer::{
    Clock, CongestionControl, FetchOptions, FetchStats, Fetcher, Naming, PathFeedback, Progress,
    PublishOptions, Publisher, Source, Stamp,
};
use larder_units::{ByteSize, Stream, Time};
use std::io;

/// Fetches one file.
pub struct Fetch {
    fetcher: Fetcher,
    start: Time,
    started: bool,
    finished: Option<Time>,
}

impl Fetch {
    /// Creates a transfer of the file `name` that begins at `start`, with its own random stream.
    pub fn new(
        name: Name,
        start: Time,
        congestion: Box<dyn CongestionControl>,
        stream: Stream,
    ) -> Self {
        Fetch::with_options(name, FetchOptions::default(), start, congestion, stream)
    }

    /// Creates a transfer with options other than those of `larder get`.
    pub fn with_options(
        name: Name,
        options: FetchOptions,
        start: Time,
        congestion: Box<dyn CongestionControl>,
        stream: Stream,
    ) -> Self {
        let fetcher = Fetcher::new(name, options, congestion, None, stream);
        Fetch {
            fetcher,
            start,
            started: false,
            finished: None,
        }
    }

    /// Creates an endless transfer of the segments of `prefix` that begins at `start` and retries
    /// each segment until it arrives: a consumer with a window (ndnSIM's `ConsumerWindow`) or a
    /// rate, as the congestion control decides. Its clock may be coarse.
    pub fn endless(
        prefix: Name,
        start: Time,
        congestion: Box<dyn CongestionControl>,
        clock: Clock,
        stream: Stream,
    ) -> Self {
        let options = FetchOptions {
            retries: u32::MAX,
            naming: Naming::Exact,
            clock,
            max_bytes: u64::MAX,
            ..FetchOptions::default()
        };
        Fetch::with_options(prefix, options, start, congestion, stream)
    }

    /// The counters of the transfer.
    pub fn stats(&self) -> &FetchStats {
        self.fetcher.stats()
    }

    /// The progress of the transfer.
    pub fn progress(&self) -> Progress<'_> {
        self.fetcher.progress()
    }

    /// The start, and the time at which the last byte arrived or the transfer failed.
    pub fn span(&self) -> (Time, Option<Time>) {
        (self.start, self.finished)
    }

    fn poll(&mut self, now: Time, sends: &mut Sends) {
        loop {
            let mut interest = Vec::with_capacity(128);
            if !self.fetcher.poll(now, &mut interest) {
                break;
            }
            sends.push(interest);
        }
        if self.finished.is_none() && self.fetcher.progress() != Progress::Running {
            self.finished = Some(now);
        }
    }
}

impl App for Fetch {
    fn next_timer(&self) -> Option<Time> {
        if self.started {
            self.fetcher.next_timeout()
        } else {
            Some(self.start)
        }
    }

    fn on_timer(&mut self, now: Time, sends: &mut Sends) {
        if self.started {
            self.fetcher.on_timeout(now)
        } else {
            self.started = true
        }
        self.poll(now, sends);
    }

    fn on_packet(&mut self, now: Time, packet: &Received<'_>, sends: &mut Sends) {
        if let Some(reason) = packet.header.nack {
            if let Ok(interest) = Interest::decode(packet.packet) {
                self.fetcher.on_nack(now, interest.name, reason);
            }
        } else if let Ok(data) = Data::decode(packet.packet) {
            self.fetcher
                .on_data(now, &data, PathFeedback::from(&packet.header), |_| {});
        }
        self.poll(now, sends);
    }
}

/// A file of zeros, for a simulated transfer.
struct Zeros(u64);

impl Source for Zeros {
    fn stamp(&mut self) -> io::Result<Stamp> {
        Ok(Stamp {
            size_bytes: self.0,
            modified_ns: 0,
        })
    }

    fn read_at(&mut self, _: u64, buffer: &mut [u8]) -> io::Result<()> {
        buffer.fill(0);
        Ok(())
    }
}

/// Serves one file.
pub struct Serve {
    publisher: Publisher<Zeros>,
}

impl Serve {
    /// Creates the file `name`: `size` zeros in unsigned segments of `segment_bytes`.
    ///
    /// # Errors
    /// [`ConfigError`] if such segments do not fit into a packet.
    pub fn new(name: Name, size: ByteSize, segment_bytes: usize) -> Result<Self, ConfigError> {
        let options = PublishOptions {
            segment_bytes,
            ..PublishOptions::default()
        };
        let publisher = Publisher::new(name, 1, Zeros(size.bytes()), Box::new(Unsigned), options);
        Ok(Serve {
            publisher: publisher.map_err(ConfigError::Segments)?,
        })
    }
}

impl App for Serve {
    fn next_timer(&self) -> Option<Time> {
        None
    }

    fn on_timer(&mut self, _: Time, _: &mut Sends) {}

    fn on_packet(&mut self, _: Time, packet: &Received<'_>, sends: &mut Sends) {
        let Ok(interest) = Interest::decode(packet.packet) else {
            return;
        };
        let mut data = Vec::new();
        // Zeros never change and `Unsigned` never fails, so an error means an Interest for another
        // file.
        let answered = self.publisher.on_interest(&interest, &mut data).is_ok();
        if answered && !data.is_empty() {
            sends.push(data);
        }
    }
}
