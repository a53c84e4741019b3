//! Bodies that stay on the disk tier until their clients read them. One task per body reads one
//! part ahead of its client.
//!
//! A part is read from the present place of the record, which may move. If the log needs the region
//! and does not keep the record, the rest of the body is read into memory, if there is room;
//! otherwise it is read from the disk for as long as it exists there.

use crate::cache::disk_tier::HttpDisk;
use crate::exchange::outgoing::Outgoing;
use crate::message::body::BodyError;
use crate::message::channel_body::{Pieces, Sender};
use bytes::Bytes;
use larder_disk::Parts;
use larder_http::{Budget, Reservation, Streamed, StreamedPiece};
use std::collections::VecDeque;
use tokio::sync::mpsc;

/// Starts to send a body from the disk.
pub(crate) fn stream(disk: &HttpDisk, budget: &Budget, body: Streamed) -> Outgoing {
    let left = body.left();
    let (sender, receiver) = mpsc::channel(1);
    if let Some(reading) = Reading::new(disk, budget, body) {
        tokio::spawn(async move {
            tokio::select! {
                () = send(reading, &sender) => {}
                () = sender.closed() => {}
            }
        });
    }
    Outgoing::Assembled(Pieces::new(receiver, left))
}

async fn send(mut reading: Reading, sender: &Sender) {
    if let Err(Some(error)) = reading.deliver(sender).await {
        let _ = sender.send(Err(error)).await;
    }
}

/// A body that is being read.
pub(crate) struct Reading {
    disk: HttpDisk,
    budget: Budget,
    parts: Parts,
    body: Streamed,
    /// The rest of the body in memory, after the log needed its region.
    rescued: Option<(VecDeque<Bytes>, Reservation)>,
}

impl Reading {
    /// `None` if the body does not come from `disk_tier::tier_lookup`.
    pub(crate) fn new(disk: &HttpDisk, budget: &Budget, body: Streamed) -> Option<Reading> {
        let parts = body.record().downcast_ref::<Parts>()?.clone();
        Some(Reading {
            disk: disk.clone(),
            budget: budget.clone(),
            parts,
            body,
            rescued: None,
        })
    }

    /// Returns the number of unsent bytes.
    pub(crate) fn left(&self) -> u64 {
        self.body.left()
            + self.rescued.as_ref().map_or(0, |(rest, _)| {
                rest.iter().map(|bytes| bytes.len() as u64).sum()
            })
    }

    /// Sends the body to its end. `Err(None)` if the client has left.
    pub(crate) async fn deliver(&mut self, sender: &Sender) -> Result<(), Option<BodyError>> {
        let mut reclaimed = self.disk.reclaimed();
        let mut may_leave = true;
        loop {
            let permit = tokio::select! {
                permit = sender.reserve() => permit,
                Ok(()) = reclaimed.changed(), if may_leave => {
                    may_leave = self.disk.stays(&mut self.parts);
                    if !may_leave {
                        self.rescue().await;
                    }
                    continue;
                }
            };
            // The client has left.
            let Ok(permit) = permit else { return Err(None) };
            match self.next_piece().await? {
                Some(bytes) => permit.send(Ok(bytes)),
                None => return Ok(()),
            }
        }
    }

    /// Reads the rest into memory.
    async fn rescue(&mut self) {
        let Some(room) = self.budget.reserve_for_tier_hit(self.body.left()) else {
            return;
        };
        let mut rest = VecDeque::new();
        // An unreadable part ends the body.
        while let Ok(Some(bytes)) = self.read().await {
            rest.push_back(bytes);
        }
        self.rescued = Some((rest, room));
    }

    async fn next_piece(&mut self) -> Result<Option<Bytes>, BodyError> {
        if let Some((rest, _)) = &mut self.rescued
            && let Some(bytes) = rest.pop_front()
        {
            return Ok(Some(bytes));
        }
        self.read().await
    }

    async fn read(&mut self) -> Result<Option<Bytes>, BodyError> {
        let bytes = match self.body.next_piece() {
            StreamedPiece::End => return Ok(None),
            StreamedPiece::Lines(lines) => lines,
            StreamedPiece::Record { at, most } => {
                let mut bytes =
                    self.disk
                        .read_part(&mut self.parts, at)
                        .await
                        .map_err(|error| {
                            tracing::debug!(%error, "a body from the disk tier broke off");
                            BodyError::new("the disk tier did not give back the rest of the body")
                        })?;
                bytes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
                bytes
            }
        };
        self.body.took(bytes.len());
        Ok(Some(bytes))
    }
}
