//! The records that the disk tier has read.

use super::EventLoop;
use crate::ndn::shards::command::Command;
use larder_forwarder::Report;

impl EventLoop {
    /// Waits on its own thread until the erasures are on disk. Erasing is rare, and a disk may take
    /// seconds.
    pub(super) fn settle_disk(&self, ticket: u64) {
        let Some(disk) = self.disk.clone() else {
            return;
        };
        let ports = self.shard_channel.ports.clone();
        let shard = self.shard_channel.shard.number();
        let settle = move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build();
            let settled = match runtime {
                Ok(runtime) => runtime
                    .block_on(disk.settle())
                    .map_err(|error| error.to_string()),
                Err(error) => Err(format!("cannot wait for the disk: {error}")),
            };
            ports[shard].send(Command::Said(ticket, Report::Settled(settled)));
        };
        if let Err(error) = std::thread::Builder::new()
            .name("disk-settle".to_owned())
            .spawn(settle)
        {
            let why = format!("cannot start a thread that waits for the disk: {error}");
            self.shard_channel
                .own()
                .send(Command::Said(ticket, Report::Settled(Err(why))));
        }
    }
}
