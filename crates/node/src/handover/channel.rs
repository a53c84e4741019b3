//! The messages between the old and the new process, with descriptors.

use crate::limits::{UPGRADE_DESCRIPTORS as DESCRIPTORS, UPGRADE_MESSAGE_BYTES as MESSAGE_BYTES};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// One end.
pub(super) struct Channel(OwnedFd);

impl Channel {
    /// Returns both ends; the second one is for another process.
    pub(super) fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (near, far) = socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )?;
        Ok((Channel(near), far))
    }

    pub(super) fn new(end: OwnedFd) -> Channel {
        Channel(end)
    }

    pub(super) fn send(&self, text: &str) -> io::Result<()> {
        self.send_with(text, &[])
    }

    /// Sends a text with descriptors.
    pub(super) fn send_with(&self, text: &str, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other(format!(
                "more than {DESCRIPTORS} listeners"
            )));
        }
        let text = &text.as_bytes()[..text.len().min(MESSAGE_BYTES)];
        sendmsg(
            &self.0,
            &[IoSlice::new(text)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// Receives a message. `None` means that the other process has ended.
    pub(super) fn receive(&self) -> io::Result<Option<(String, Vec<OwnedFd>)>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = vec![0; MESSAGE_BYTES];
        let received = loop {
            match recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut control,
                RecvFlags::CMSG_CLOEXEC,
            ) {
                Err(rustix::io::Errno::INTR) => {}
                received => break received?,
            }
        };
        let descriptors = control
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        let text = String::from_utf8_lossy(&bytes[..received.bytes]).into_owned();
        Ok((received.bytes > 0).then_some((text, descriptors)))
    }

    /// Limits the wait of [`Channel::receive`].
    pub(super) fn set_receive_timeout(&self, patience: Duration) -> io::Result<()> {
        use rustix::net::sockopt::{Timeout, set_socket_timeout};
        Ok(set_socket_timeout(&self.0, Timeout::Recv, Some(patience))?)
    }

    /// Ends the conversation: both sides find its end.
    pub(super) fn close(&self) {
        let _ = rustix::net::shutdown(&self.0, rustix::net::Shutdown::Both);
    }
}
