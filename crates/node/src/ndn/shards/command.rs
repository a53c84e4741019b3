//! Messages to the threads of the event loops.

use crate::ndn::bounds::Bounds;
use crate::ndn::control::settings::Reload;
use crate::ndn::control::snapshot::{Observations, Snapshot};
use crate::ndn::error::NdnError;
use crate::ndn::guard::stream_places::Activity;
use crate::ndn::guard::udp_faces::{Datagrams, NewPeer, PeerSetting};
use crate::ndn::shards::batch::{Batch, Outgoing};
use crate::ndn::transport::stream::Socket;
use crate::ndn::transport::udp::datagram::UdpListener;
use larder_forwarder::{Change, FaceId, Report, ShardQuery, TierRecord};
use larder_policy::JobDone;
use std::sync::mpsc;

/// A message to a thread.
pub(crate) enum Command {
    Snapshot(mpsc::Sender<Snapshot>),
    /// Takes the observations of the Content Store, of which the sample is up to this from now on.
    Observations(Option<u64>, mpsc::Sender<Observations>),
    JobDone(JobDone),
    /// Applies new settings, and answers with the addresses of the listeners.
    Reload(Box<Reload>, mpsc::Sender<Result<Vec<String>, NdnError>>),
    /// New bounds, from the first thread.
    Bounds(Bounds),
    Stop,
    /// Pauses the listeners, or goes on with them.
    Listen(bool, mpsc::Sender<()>),
    /// Frames of other threads' faces.
    Frames(Batch<FaceId>),
    /// Packets to faces of this thread.
    Sends(Batch<Outgoing>),
    /// Changes of the first shard's forwarder, for the others.
    Changes(Vec<Change>),
    /// A new face belongs to the thread with this number.
    FaceAt(FaceId, usize),
    /// A new face belongs to this thread.
    Adopt(FaceId, Box<Socket>, Option<Activity>),
    /// To the first thread: a face has closed.
    Closed(FaceId, Option<String>),
    /// The UDP socket of this thread, in the place of the one before.
    Udp(Option<Box<UdpListener>>),
    /// Datagrams of a UDP peer of this thread, or, to the first thread, of a stranger.
    Datagrams(Datagrams),
    /// A new UDP face belongs to this thread.
    AdoptPeer(Box<NewPeer>),
    /// A UDP face has another setting; from or to the first thread.
    Peer(FaceId, PeerSetting),
    /// From a thread with scarce places: which of these faces have answered?
    Answered(Vec<FaceId>, usize),
    /// These faces have answered.
    Proven(Vec<FaceId>),
    /// From the first thread: a query of its management.
    Ask(u64, ShardQuery),
    /// To the first thread: the answer.
    Said(u64, Report),
    /// A record that the disk tier has read.
    TierRecord(u64, Option<TierRecord>),
}
