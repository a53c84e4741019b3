//! Links without nodes, for hosts with their own clock and frames. The link emulator of the testbed
//! runs the simulator's links by the real clock.

use super::channel::{Channel, ChannelCounters, ChannelId, LinkConfig};
use crate::events::{Event, EventQueue, Frames};
use crate::node::NodeId;
use larder_forwarder::FaceId;
use larder_units::{Streams, Time};

/// Channels, and the frames on them. Only the length of a frame matters, not its content, so a
/// queue must drop frames and not mark them.
pub struct Links {
    streams: Streams,
    events: EventQueue,
    frames: Frames,
    channels: Vec<Channel>,
}

impl Links {
    /// Creates an emulator without channels. Each channel draws from a random stream of this seed
    /// that is named after the channel.
    pub fn new(seed: u64) -> Self {
        Links {
            streams: Streams::new(seed),
            events: EventQueue::default(),
            frames: Frames::default(),
            channels: Vec::new(),
        }
    }

    /// Adds one direction of a link. The names of its ends select its random stream.
    pub fn add(&mut self, from: &str, to: &str, config: LinkConfig) -> ChannelId {
        let id = self.channels.len() as u32;
        let stream = self.streams.stream(&format!("channel {from} {to}"));
        self.channels.push(Channel::new(
            id,
            NodeId(0),
            NodeId(0),
            FaceId(0),
            config,
            stream,
        ));
        ChannelId(id)
    }

    /// Sends a frame into a channel. `now` must not go back.
    pub fn send(&mut self, now: Time, channel: ChannelId, frame: Vec<u8>) {
        self.channels[channel.0 as usize].send_frame(
            now,
            frame.into(),
            &mut self.events,
            &mut self.frames,
        );
    }

    /// The time of the next event.
    pub fn next_at(&self) -> Option<Time> {
        self.events.next_at()
    }

    /// Returns the next frame that has left a channel by `now`: the channel, the arrival time, and
    /// the frame.
    pub fn arrived(&mut self, now: Time) -> Option<(ChannelId, Time, Vec<u8>)> {
        while let Some((at, event)) = self.events.next(now) {
            match event {
                Event::Ready { channel, .. } => {
                    self.channels[channel as usize].on_ready(
                        at,
                        &mut self.events,
                        &mut self.frames,
                    );
                }
                Event::Arrive { channel, frame, .. } => {
                    return Some((ChannelId(channel), at, self.frames.take(frame).into_own()));
                }
                _ => {}
            }
        }
        None
    }

    /// The counters of a channel.
    pub fn counters(&self, channel: ChannelId) -> ChannelCounters {
        self.channels[channel.0 as usize].counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Loss;
    use std::time::Duration;

    #[test]
    fn frames_leave_after_rate_and_delay_and_those_lost_never() {
        let mut links = Links::new(1);
        let config = LinkConfig::new("8Mbps".parse().unwrap(), Duration::from_millis(10));
        let clean = links.add("a", "b", config);
        let lossy = links.add(
            "b",
            "a",
            LinkConfig {
                loss: Loss::Uniform(1.0),
                ..config
            },
        );
        for _ in 0..2 {
            links.send(Time::ZERO, clean, vec![0; 1000]);
            links.send(Time::ZERO, lossy, vec![0; 1000]);
        }
        assert_eq!(
            links.arrived(Time::from_millis(10)),
            None,
            "a millisecond to send, ten under way"
        );
        let (channel, due, frame) = links.arrived(Time::from_secs(1)).unwrap();
        assert_eq!(
            (channel, due, frame.len()),
            (clean, Time::from_millis(11), 1000)
        );
        assert_eq!(
            links.arrived(Time::from_secs(1)).unwrap().1,
            Time::from_millis(12),
            "one after the other"
        );
        assert_eq!(
            (links.arrived(Time::from_secs(1)), links.next_at()),
            (None, None)
        );
        assert_eq!(links.counters(lossy).lost, 2);
    }
}
