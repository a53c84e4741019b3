//! Web and video traffic together, in a given ratio of their volumes (the filter paper, section
//! 6.1.2: 0.7, from Fricker et al.).
//!
//! Volume means requested bytes: the rate of web requests makes their bytes `ratio` times those of
//! the videos. With the paper's packets of one size this is 3,500 and 5,000 a second. The ratio
//! holds in the long run; in the first seconds, few videos are running.

use super::{ParameterError, Video, VideoRequests, Web, WebRequests, arrivals};
use crate::Access;
use larder_units::Streams;
use std::iter::Peekable;

/// The paper's ratio of web to video.
const RATIO: f64 = 0.7;

/// Web and video traffic. [`Default`] is the filter paper's third workload. Ids of videos follow
/// those of web objects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    web: Web,
    video: Video,
}

impl Default for Mix {
    fn default() -> Self {
        Mix::of(Web::default(), Video::default(), RATIO)
    }
}

impl Mix {
    /// Combines `web` and `video` so that `web` requests `ratio` times as many bytes. This sets the
    /// rate of `web`.
    pub fn of(web: Web, video: Video, ratio: f64) -> Mix {
        let video_bytes = video.views_per_second * video.packets as f64 * video.packet_bytes as f64;
        let requests_per_second = ratio * video_bytes / web.object_bytes as f64;
        Mix {
            web: Web {
                requests_per_second,
                ..web
            },
            video,
        }
    }

    /// Returns endless requests, in the order of their times; the same for the same streams.
    ///
    /// # Errors
    /// [`ParameterError`] of the ratio, or of the web's or the video's parameters.
    pub fn requests(&self, streams: &Streams) -> Result<MixRequests, ParameterError> {
        if self
            .video
            .objects()
            .and_then(|packets| packets.checked_add(self.web.objects))
            .is_none()
        {
            return Err(ParameterError {
                parameter: "objects",
                needed: "2^64 at most with the videos' packets",
            });
        }
        if self.web.object_bytes == 0 || self.video.packet_bytes == 0 {
            let needed = "a byte at least is needed, for the ratio is one of bytes";
            return Err(ParameterError {
                parameter: "web-object-bytes, packet-bytes",
                needed,
            });
        }
        // In this order, because the web's rate follows from the video's parameters and the ratio.
        let video = self.video.requests(streams)?;
        arrivals::check("ratio", self.web.requests_per_second)?;
        let of_web = |error| ParameterError {
            parameter: "web-objects, web-exponent",
            ..error
        };
        let web = self.web.requests(streams).map_err(of_web)?;
        Ok(MixRequests {
            web: web.peekable(),
            video: video.peekable(),
            first_video: self.web.objects,
        })
    }
}

/// The requests of a [`Mix`].
#[derive(Clone, Debug)]
pub struct MixRequests {
    web: Peekable<WebRequests>,
    video: Peekable<VideoRequests>,
    first_video: u64,
}

impl Iterator for MixRequests {
    type Item = Access;

    fn next(&mut self) -> Option<Access> {
        if self.web.peek()?.now <= self.video.peek()?.now {
            return self.web.next();
        }
        self.video.next().map(|access| Access {
            id: access.id + self.first_video,
            ..access
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volumes_are_in_another_ratio() {
        for packet_bytes in [1024, 4096] {
            let mix = Mix::of(
                Web::default(),
                Video {
                    packets: 100,
                    packet_bytes,
                    ..Video::default()
                },
                RATIO,
            );
            let accesses: Vec<Access> = mix
                .requests(&Streams::new(1))
                .unwrap()
                .take(400_000)
                .collect();
            assert!(
                accesses.windows(2).all(|pair| pair[0].now <= pair[1].now),
                "time goes back"
            );
            let bytes = |is_video: bool| {
                let counted = accesses
                    .iter()
                    .filter(|access| (access.id >= 10_000_000) == is_video);
                counted.map(|access| access.size).sum::<u64>() as f64
            };
            // Thousands of views, with a deviation of 2 %.
            let ratio = bytes(false) / bytes(true);
            assert!((ratio / RATIO - 1.0).abs() < 0.06, "{ratio} for {RATIO}");
        }
        assert_eq!(Mix::default().web.requests_per_second, 3500.0);
    }

    #[test]
    fn parameters_of_nothing() {
        let error = |mix: Mix| mix.requests(&Streams::new(1)).unwrap_err().to_string();
        for ratio in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(
                error(Mix::of(Web::default(), Video::default(), ratio)),
                "ratio: a positive number is needed"
            );
        }
        let calm = Video {
            views_per_second: 0.0,
            ..Video::default()
        };
        assert!(error(Mix::of(Web::default(), calm, 0.7)).starts_with("views-per-second: "));
        let empty = Web {
            object_bytes: 0,
            ..Web::default()
        };
        assert!(error(Mix::of(empty, Video::default(), 0.7)).starts_with("web-object-bytes"));
        let none = Web {
            objects: 0,
            ..Web::default()
        };
        assert!(
            error(Mix::of(none, Video::default(), 0.7)).starts_with("web-objects, web-exponent: ")
        );
        let full = Web {
            objects: u64::MAX,
            ..Web::default()
        };
        assert!(error(Mix::of(full, Video::default(), 0.7)).contains("2^64"));
    }
}
