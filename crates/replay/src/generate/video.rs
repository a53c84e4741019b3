//! Video traffic: views start by a Poisson process, and each view requests the packets of its video
//! in order at a constant rate (the filter paper by Takemasa, Koizumi and Hasegawa, section 6.1.2:
//! 10⁴ videos of 10⁴ packets of 1,024 bytes, 0.5 views a second, 625 packets a second, which is 5
//! Mbps).
//!
//! The paper does not give the popularity of the videos; here it is Zipf with the exponent of its
//! web traffic. Two views of one video are independent. All views request at the same rate, so the
//! view with the oldest last request is next: a queue suffices, O(1) a request, 24 bytes per
//! running view (8 views on average).

use super::{ParameterError, arrivals};
use crate::limits::VIDEO_MAX_VIEWS;
use crate::{Access, Zipf};
use larder_units::{Stream, Streams, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// Views of videos. [`Default`] is the filter paper's video traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Video {
    /// The number of videos in the catalogue.
    pub videos: u64,
    /// The packets of every video. Packet p of the video of rank k has the id (k − 1)·packets + p.
    pub packets: u64,
    /// The bytes of every packet.
    pub packet_bytes: u64,
    /// Zipf's exponent of the videos' popularity.
    pub exponent: f64,
    /// The mean number of views that start per second.
    pub views_per_second: f64,
    /// The packets that a view requests per second, evenly spaced.
    pub packets_per_second: f64,
}

impl Default for Video {
    fn default() -> Self {
        Video {
            videos: 10_000,
            packets: 10_000,
            packet_bytes: 1024,
            exponent: 0.8,
            views_per_second: 0.5,
            packets_per_second: 625.0,
        }
    }
}

impl Video {
    /// Returns the number of packets in the catalogue; `None` above 2⁶⁴.
    pub fn objects(&self) -> Option<u64> {
        self.videos.checked_mul(self.packets)
    }

    /// Returns endless requests; the same for the same streams. No views are running at first. The
    /// number of running views reaches its mean after the length of a video.
    ///
    /// # Errors
    /// [`ParameterError`] if there is no such distribution, or more than [`VIDEO_MAX_VIEWS`] views
    /// run on average.
    pub fn requests(&self, streams: &Streams) -> Result<VideoRequests, ParameterError> {
        let zipf = Zipf::new(self.videos, self.exponent).ok_or(ParameterError::popularity())?;
        arrivals::check("views-per-second", self.views_per_second)?;
        arrivals::check("packets-per-second", self.packets_per_second)?;
        if self.packets == 0 || self.objects().is_none() {
            return Err(ParameterError {
                parameter: "packets",
                needed: "1 to 2^64 ÷ videos are needed",
            });
        }
        if self.packets as f64 / self.packets_per_second * self.views_per_second
            > VIDEO_MAX_VIEWS as f64
        {
            return Err(ParameterError {
                parameter: "views-per-second",
                needed: "fewer are needed, or shorter videos: at most 4 million views at once",
            });
        }
        let spacing =
            Duration::try_from_secs_f64(1.0 / self.packets_per_second).unwrap_or(Duration::MAX);
        let mut stream = streams.stream("video");
        let next_start = Time::ZERO + arrivals::pause(self.views_per_second, &mut stream);
        Ok(VideoRequests {
            video: *self,
            zipf,
            stream,
            spacing,
            next_start,
            running: VecDeque::new(),
        })
    }
}

/// The requests of a [`Video`].
#[derive(Clone, Debug)]
pub struct VideoRequests {
    video: Video,
    zipf: Zipf,
    stream: Stream,
    /// The time between two packets of a view.
    spacing: Duration,
    next_start: Time,
    /// In the order of their next request.
    running: VecDeque<View>,
}

#[derive(Clone, Copy, Debug)]
struct View {
    at: Time,
    id: u64,
    /// The packets of the video after this one.
    left: u64,
}

impl Iterator for VideoRequests {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        let view = match self.running.front() {
            Some(view) if view.at <= self.next_start => self.running.pop_front()?,
            _ => self.start(),
        };
        if view.left > 0 {
            self.running.push_back(View {
                at: view.at + self.spacing,
                id: view.id + 1,
                left: view.left - 1,
            });
        }
        Some(Access {
            id: view.id,
            size: self.video.packet_bytes,
            now: view.at,
        })
    }
}

impl VideoRequests {
    fn start(&mut self) -> View {
        let at = self.next_start;
        let first = (self.zipf.draw(&mut self.stream) - 1) * self.video.packets;
        self.next_start += arrivals::pause(self.video.views_per_second, &mut self.stream);
        View {
            at,
            id: first,
            left: self.video.packets - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_no_constant_stream_of_its_packets() {
        let video = Video {
            videos: 1_000_000,
            packets: 50,
            ..Video::default()
        };
        let accesses: Vec<Access> = video
            .requests(&Streams::new(1))
            .unwrap()
            .take(20_000)
            .collect();
        assert!(
            accesses.windows(2).all(|pair| pair[0].now <= pair[1].now),
            "time goes back"
        );
        // There are so many videos that hardly one is viewed twice: its packets are 1.6 ms apart.
        let mut last: std::collections::HashMap<u64, Access> = std::collections::HashMap::new();
        let (mut steps, mut starts) = (0, 0);
        for access in &accesses {
            let (video, packet) = (access.id / 50, access.id % 50);
            match last.insert(video, *access) {
                Some(before) if packet > 0 => {
                    assert_eq!(before.id + 1, access.id);
                    assert_eq!(access.now.since(before.now), Duration::from_micros(1600));
                    steps += 1;
                }
                _ => {
                    assert_eq!(packet, 0, "a view starts in the middle");
                    starts += 1;
                }
            }
        }
        assert!(
            starts >= 400 && steps > 19_000,
            "{starts} views, {steps} steps"
        );
    }

    #[test]
    fn views_start_at_another_rate_or_popularity() {
        // Short videos, so that many start: 20 videos of 3 packets.
        let video = Video {
            videos: 20,
            packets: 3,
            views_per_second: 50.0,
            ..Video::default()
        };
        let (mut starts, mut counts, mut end) = (0_u32, [0_u32; 20], Time::ZERO);
        for access in video.requests(&Streams::new(2)).unwrap().take(300_000) {
            assert!(access.id < 60 && access.size == 1024);
            if access.id % 3 == 0 {
                starts += 1;
                counts[access.id as usize / 3] += 1;
            }
            end = access.now;
        }
        // 100,000 views in 2,000 s, with a deviation of 6.3 s; every view requests all its packets.
        assert!((99_990..=100_010).contains(&starts), "{starts}");
        assert!(
            (end.as_secs_f64() - 2000.0).abs() < 25.0,
            "{}",
            end.as_secs_f64()
        );
        let all: f64 = (1..=20).map(|rank| f64::from(rank).powf(-0.8)).sum();
        let chi: f64 = (1..=20)
            .map(|rank| {
                (
                    f64::from(starts) * f64::from(rank).powf(-0.8) / all,
                    f64::from(counts[rank as usize - 1]),
                )
            })
            .map(|(expected, found)| (found - expected).powi(2) / expected)
            .sum();
        // 19 degrees of freedom: χ² is above 43.8 once in a thousand.
        assert!(chi < 43.8, "χ² {chi}");
    }

    #[test]
    fn more_or_fewer_views_run_than_little_s_law_says() {
        let mut requests = Video::default().requests(&Streams::new(4)).unwrap();
        let mut running = 0;
        for taken in 0..1_000_000 {
            requests.next();
            // After 16 s, 0.5 views a second of 16 s each.
            running += if taken > 100_000 {
                requests.running.len()
            } else {
                0
            };
        }
        // Mean over requests, not over time, which favours busy times: 8 + 1 by the Poisson
        // distribution's size bias.
        let mean = running as f64 / 900_000.0;
        assert!((7.5..10.5).contains(&mean), "{mean}");
    }

    #[test]
    fn parameters_of_nothing() {
        let error = |video: Video| video.requests(&Streams::new(1)).unwrap_err().to_string();
        let video = Video::default();
        assert!(error(Video { videos: 0, ..video }).contains("objects"));
        assert!(
            error(Video {
                packets: 0,
                ..video
            })
            .contains("packets")
        );
        assert!(
            error(Video {
                packets: u64::MAX,
                ..video
            })
            .contains("packets")
        );
        assert!(
            error(Video {
                exponent: f64::NAN,
                ..video
            })
            .contains("exponent")
        );
        assert!(
            error(Video {
                packets_per_second: 0.0,
                ..video
            })
            .contains("packets-per-second")
        );
        assert!(
            error(Video {
                views_per_second: 1e9,
                ..video
            })
            .contains("views-per-second")
        );
        let slow = Video {
            packets_per_second: 1e-300,
            packets: 1,
            views_per_second: 1e-301,
            ..video
        };
        assert_eq!(
            slow.requests(&Streams::new(1)).unwrap().nth(5).unwrap().now,
            Time::MAX
        );
    }
}
