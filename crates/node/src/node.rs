//! Starting and stopping the whole node.

use crate::config::Config;
use crate::ndn::Ndn;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Write;
use std::sync::mpsc;

/// A running node.
pub struct Node {
    ndn: Ndn,
    ends: mpsc::Receiver<End>,
}

/// Why the node stops.
enum End {
    Signal(i32),
    /// A thread that should run for ever has ended.
    Thread(&'static str),
}

impl Node {
    /// Starts everything that the configuration names.
    ///
    /// # Errors
    /// One line that names the setting, what is wrong and what to do; nothing is left running.
    pub fn start(config: &Config) -> Result<Node, String> {
        let (end, ends) = mpsc::channel();
        let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM])
            .map_err(|error| format!("cannot listen for signals: {error}"))?;
        let on_signal = end.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || signals.forever().for_each(|signal| drop(on_signal.send(End::Signal(signal)))))
            .map_err(|error| format!("cannot start a thread: {error}"))?;
        let ndn = Ndn::start(&config.ndn, move || drop(end.send(End::Thread("ndn"))))?;
        Ok(Node { ndn, ends })
    }

    /// What is served where, and what to type next.
    pub fn greeting(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "NDN    {}", self.ndn.listening.join("  "));
        if let Some(path) = &self.ndn.unix {
            let _ = writeln!(text, "       export NDN_CLIENT_TRANSPORT=unix://{}", path.display());
        }
        text
    }

    /// Serves until SIGINT or SIGTERM, then stops cleanly.
    ///
    /// # Errors
    /// Where a thread of the node ended by itself.
    pub fn run(self) -> Result<(), String> {
        let end = self.ends.recv();
        let result = match end {
            Ok(End::Signal(signal)) => {
                tracing::info!(signal = signal_hook::low_level::signal_name(signal), "stopping");
                Ok(())
            }
            Ok(End::Thread(name)) => Err(format!("the {name} thread ended; the log says why")),
            Err(mpsc::RecvError) => Err("every thread ended; the log says why".to_owned()),
        };
        self.ndn.stop();
        result
    }
}
