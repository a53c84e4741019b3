//! The thread: it passes events to the cores, and carries out their actions.

use crate::clock;
use crate::config::FleetConfig;
use crate::error::Error;
use crate::files::{Change, Files, KeptPosition};
use crate::limits;
use crate::log_client::{LogClient, NoDescription};
use crate::order::Order;
use crate::owned::Unacknowledged;
use crate::status::{Figures, Shared, name_of, two_nodes};
use async_nats::{Event, Subscriber};
use futures_util::StreamExt;
use futures_util::stream::SelectAll;
use larder_fleet::{
    Acceptor, AcceptorConfig, Action, Answer, Follower, FollowerConfig, Id, JournalKey,
    LogDescription, LogEntry, Mark, Member, Members, Message, Note, Outbox, Position, ReadAnswer,
    ReadFrom, StaleReason, Standing, Token, WaitKey, Waited, Waits,
};
use larder_http::{Purge, Scope, Url};
use larder_proxy::{Purger, Unpublished};
use larder_units::Time;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The result of a task.
enum Done {
    Connected(Box<Connected>),
    /// All entries since then are received.
    Subscribed,
    /// The server has this version, and does not republish entries as the log needs it.
    TooOld(String),
    Described(Token, Result<LogDescription, NoDescription>),
    Read(Token, ReadAnswer),
    Acknowledged(Id, u64),
    /// The purges up to this one are on disk.
    Settled(Mark),
    Changed(Files, Vec<JournalKey>, bool),
    /// What unsafe requests have invalidated has waited for more.
    Collected,
    /// The names in the bucket of leases.
    Leases(Option<Vec<String>>),
}

/// A client of the log's servers, with its subscriptions.
struct Connected {
    client: LogClient,
    entries: Subscriber,
    notes: SelectAll<Subscriber>,
}

/// The state of the thread.
pub(crate) struct Running {
    config: FleetConfig,
    shared: Arc<Shared>,
    purger: Purger,
    follower: Follower,
    acceptor: Acceptor,
    out: Outbox,
    client: Option<LogClient>,
    /// Absent while a task changes them.
    files: Option<Files>,
    /// Changes for the files.
    changes: Vec<Change>,
    /// The last purge that was executed, and whether a task waits for the disk.
    executed: Option<Mark>,
    is_settling: bool,
    members: Members,
    /// The name of this process among those of the node.
    instance: String,
    /// The nodes of the fleet for the figures, and when they are listed again.
    shown_nodes: (Arc<[Member]>, Time),
    /// [`Members::offer_changes`] of the owners that requests see.
    shown_offers: u64,
    waits: Waits,
    clients: HashMap<JournalKey, Waiting>,
    /// Purges of clients that the log may not have, if nodes share their responses.
    unacknowledged: HashMap<Id, Unacknowledged>,
    /// The clients that wait for all nodes, with the answer so far.
    waiting: HashMap<WaitKey, (Reply, Value)>,
    done: mpsc::UnboundedSender<Done>,
    is_connected: bool,
    /// URLs that unsafe requests have invalidated, in entries of the log.
    invalidations: u64,
}

/// Where the answer for a client goes.
type Reply = oneshot::Sender<Result<Value, Unpublished>>;

/// A client that waits for its purge to be in the log.
struct Waiting {
    id: Id,
    /// Whether it waits for all nodes, too.
    waits: bool,
    reply: Reply,
}

impl Running {
    pub(crate) fn new(
        config: FleetConfig,
        shared: Arc<Shared>,
        purger: Purger,
        files: Files,
    ) -> Running {
        let of_follower = FollowerConfig {
            node: config.node.clone(),
            max_lag: config.max_lag,
            beats: larder_fleet::limits::BEATS,
        };
        // The channel of the loop is made when it runs.
        let (done, _) = mpsc::unbounded_channel();
        Running {
            follower: Follower::new(of_follower, nonce()),
            acceptor: Acceptor::new(AcceptorConfig::default(), nonce()),
            members: Members::new(&config.node, config.offer.clone()),
            instance: format!("{:016x}", larder_host::entropy::words::<1>()[0]),
            shown_nodes: (Arc::default(), Time::ZERO),
            shown_offers: 0,
            waits: Waits::new(&config.node),
            config,
            shared,
            purger,
            out: Outbox::new(),
            client: None,
            files: Some(files),
            changes: Vec::new(),
            executed: None,
            is_settling: false,
            clients: HashMap::new(),
            unacknowledged: HashMap::new(),
            waiting: HashMap::new(),
            done,
            is_connected: false,
            invalidations: 0,
        }
    }

    /// Runs until the senders of orders are gone.
    pub(crate) async fn run(mut self, position: KeptPosition, mut orders: mpsc::Receiver<Order>) {
        let (done, mut results) = mpsc::unbounded_channel();
        let (events, mut connection) = mpsc::unbounded_channel();
        self.done = done;
        let kept = match position {
            KeptPosition::At(kept) => Some(kept),
            KeptPosition::None => None,
            KeptPosition::Lost => {
                tracing::warn!(
                    "[fleet]: all that is stored is removed: it is not known which purges are missing"
                );
                self.purger.purge(&everything(false));
                None
            }
        };
        let journal = self.files.as_ref().map(Files::outbox).unwrap_or_default();
        let witnesses = self
            .acceptor
            .on_journal_read(clock::now(), journal, &mut self.out);
        self.follower.on_started(kept, witnesses);
        tokio::spawn(connect(
            self.config.clone(),
            events.clone(),
            self.done.clone(),
        ));
        let mut entries: Option<Subscriber> = None;
        let mut notes = SelectAll::new();
        let shared = Arc::clone(&self.shared);
        loop {
            // Messages come first below, and must not keep it from what is due.
            if self.pause().is_zero() {
                self.on_timeout();
            }
            self.carry_out();
            let entry = async {
                match &mut entries {
                    Some(entries) => entries.next().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    Some(order) => self.accept(order),
                    None => return self.end(results).await,
                },
                Some(result) = results.recv() => {
                    if let Done::Connected(connected) = result {
                        self.client = Some(connected.client);
                        entries = Some(connected.entries);
                        notes = connected.notes;
                        self.subscribed();
                    } else {
                        self.finish(result);
                    }
                }
                Some(event) = connection.recv() => self.on_event(&event),
                message = entry => match message {
                    Some(message) => {
                        let entry = self.client.as_ref().and_then(|client| client.entry(&message));
                        if let Some(entry) = entry {
                            self.on_entry(entry);
                        }
                    }
                    None => {
                        tracing::error!("[fleet] nats: the client has ended, and is started again");
                        entries = None;
                        self.on_event(&Event::Disconnected);
                        tokio::spawn(connect(self.config.clone(), events.clone(), self.done.clone()));
                    }
                },
                Some(message) = notes.next() => {
                    if let Some(note) = self.client.as_ref().and_then(|client| client.note(&message)) {
                        self.on_note(note);
                    }
                }
                () = shared.invalidated.wake.notified() => self.collect(),
                () = tokio::time::sleep(self.pause()) => self.on_timeout(),
            }
        }
    }

    /// Returns the time until something is due.
    fn pause(&self) -> Duration {
        let due = [
            self.follower.next_timeout(),
            self.acceptor.next_timeout(),
            self.members.next_timeout(),
            self.waits.next_timeout(),
        ];
        let due = due.into_iter().flatten().min();
        due.map_or(limits::REQUEST, |due| due.since(clock::now()))
    }

    fn on_timeout(&mut self) {
        let now = clock::now();
        self.follower.on_timeout(now, &mut self.out);
        self.acceptor.set_in_doubt(now, self.follower.doubts_log());
        self.acceptor.on_timeout(now, &mut self.out);
    }

    fn on_note(&mut self, note: Note) {
        let now = clock::now();
        self.members.on_note(now, &note);
        self.waits.on_note(now, note, &self.members);
    }

    fn on_entry(&mut self, entry: LogEntry) {
        self.follower.on_entry(clock::now(), entry, &mut self.out);
    }

    /// Accepts a purge of a client.
    fn accept(&mut self, order: Order) {
        let Order {
            mut message,
            waits,
            unacknowledged,
            reply,
        } = order;
        if waits && self.count_waits() >= larder_fleet::limits::WAITS {
            let reason = "purged on this node only: too many purges wait for all nodes; send it again later, or without waiting";
            // The client may have gone.
            let _ = reply.send(Err(Unpublished::Refused(reason.to_owned())));
            return;
        }
        let id = self.acceptor.next_id();
        message.id = Arc::clone(&id);
        match self.acceptor.accept(clock::now(), message, &mut self.out) {
            Ok(key) => {
                if let Some(unacknowledged) = unacknowledged {
                    self.unacknowledged.insert(Arc::clone(&id), unacknowledged);
                }
                self.clients.insert(key, Waiting { id, waits, reply });
            }
            // The client may have gone.
            Err(refused) => drop(reply.send(Err(Unpublished::Refused(format!(
                "purged on this node only: {refused}"
            ))))),
        }
    }

    /// Returns the number of clients that wait for all nodes. Those that have gone do not count.
    fn count_waits(&mut self) -> usize {
        let gone = self.waiting.extract_if(|_, (reply, _)| reply.is_closed());
        gone.for_each(|(key, _)| self.waits.forget(key));
        let clients = self.clients.values().filter(|waiting| waiting.waits);
        let before = clients.filter(|waiting| !waiting.reply.is_closed()).count();
        before + self.waiting.len()
    }

    /// Puts what unsafe requests have invalidated into the log, a little later.
    fn collect(&self) {
        let done = self.done.clone();
        tokio::spawn(async move {
            tokio::time::sleep(limits::COLLECT).await;
            let _ = done.send(Done::Collected);
        });
    }

    /// Puts what unsafe requests have invalidated into the log.
    fn invalidate(&mut self) {
        for urls in self.shared.invalidated.take() {
            let count = urls.len();
            if !self.acceptor.has_much_room() {
                self.shared.invalidated.drop_some(count);
                continue;
            }
            let mut message = Message::new(self.acceptor.next_id(), &self.config.node);
            message.urls = urls;
            match self.acceptor.accept(clock::now(), message, &mut self.out) {
                Ok(_) => self.invalidations += count as u64,
                Err(_) => self.shared.invalidated.drop_some(count),
            }
        }
    }

    fn on_event(&mut self, event: &Event) {
        match event {
            Event::Connected => self.subscribed(),
            Event::Disconnected => {
                if std::mem::take(&mut self.is_connected) {
                    tracing::warn!("[fleet] nats: the connection is lost, and tried again");
                }
                self.follower.on_disconnected();
                self.acceptor.on_disconnected();
                self.members.on_disconnected(clock::now());
            }
            // Wrong credentials, a certificate that is not trusted, a missing permission.
            Event::ClientError(error) => {
                self.shared
                    .complain(format!("[fleet] nats: no connection: {error}"));
            }
            Event::ServerError(error) => {
                self.shared
                    .complain(format!("[fleet] nats: the server refuses: {error}"));
            }
            // Entries were dropped: the follower finds the gap, and reads them.
            Event::SlowConsumer(_) => {}
            event => tracing::debug!(%event, "fleet"),
        }
    }

    /// Asks whether the server has the subscription of a new connection.
    fn subscribed(&mut self) {
        let Some(client) = self.client.clone() else {
            return;
        };
        let done = self.done.clone();
        tokio::spawn(async move {
            // It waits for the first connection.
            while let Err(error) = client.flush().await {
                tracing::debug!(error, "the servers of the fleet's log do not answer");
                if done.is_closed() {
                    return;
                }
                tokio::time::sleep(limits::RECONNECT_LONGEST).await;
            }
            // The thread may have ended.
            let _ = done.send(match client.is_too_old() {
                Some(version) => Done::TooOld(version),
                None => Done::Subscribed,
            });
        });
    }

    fn finish(&mut self, result: Done) {
        let now = clock::now();
        match result {
            Done::Connected(..) => {}
            Done::Subscribed => {
                self.is_connected = true;
                self.follower.on_disconnected();
                self.acceptor.on_disconnected();
                self.follower.on_connected(now, &mut self.out);
                self.acceptor.on_connected(now, &mut self.out);
                self.members.on_connected(now, &mut self.out);
            }
            Done::TooOld(version) => {
                self.shared.complain(format!(
                    "the server of [fleet] nats is nats-server {version}, and 2.11 or later is needed"
                ));
            }
            Done::Described(token, description) => {
                match &description {
                    Ok(_) => {}
                    Err(NoDescription::NoLog) => self.shared.complain(format!(
                        "there is no log of the fleet {}: `larder fleet init` makes it",
                        self.config.name
                    )),
                    Err(NoDescription::NoAnswer(error)) => {
                        tracing::debug!(error, "the log of the fleet does not answer");
                    }
                }
                self.follower
                    .on_description(now, token, description.ok(), &mut self.out);
            }
            Done::Read(token, answer) => {
                self.follower.on_read(now, token, answer, &mut self.out);
            }
            Done::Acknowledged(id, sequence) => {
                self.shared.owned.set_acknowledged(sequence);
                if let Some(acknowledged) = self.unacknowledged.remove(&id) {
                    acknowledged.end();
                }
                self.follower
                    .on_acknowledged(now, &id, sequence, &mut self.out);
                let log = self.follower.position().map(|(log, _)| log);
                self.acceptor
                    .on_acknowledged(now, &id, sequence, log, &mut self.out);
            }
            Done::Collected => self.invalidate(),
            Done::Leases(names) => self.members.on_read(now, names),
            Done::Settled(mark) => {
                self.is_settling = false;
                self.follower.on_settled(now, mark, &mut self.out);
            }
            Done::Changed(files, keys, is_durable) => {
                self.files = Some(files);
                for key in keys {
                    self.acceptor
                        .on_journaled(now, key, is_durable, &mut self.out);
                }
            }
        }
    }

    /// Carries out the actions of the cores, then shows lookups the proof, and others the figures.
    fn carry_out(&mut self) {
        loop {
            while !self.out.is_empty() {
                let (log, applied) = self.place();
                self.shared.owned.set_known(log, applied);
                let actions: Vec<Action> = self.out.drain().collect();
                for action in actions {
                    self.act(action);
                }
            }
            // Other nodes learn what this one has executed.
            self.waits.set_position(self.follower.position());
            let now = clock::now();
            self.follower.set_beats(self.members.beats());
            self.members.set_standing(now, self.standing(now));
            self.members.on_timeout(now, &mut self.out);
            let follower = &self.follower;
            let id_of = |sequence| follower.id_of(sequence);
            self.waits
                .on_timeout(now, &self.members, id_of, &mut self.out);
            if self.out.is_empty() {
                break;
            }
        }
        self.settle();
        self.change_files();
        self.show_owners();
        let (now, of_cache) = (clock::now(), self.purger.now());
        self.shared
            .gate
            .set(self.follower.fresh_until(), now, of_cache);
        let (nodes, are_two) = self.nodes(now);
        self.shared.show(Figures {
            state: Some(self.follower.state(now)),
            is_connected: self.is_connected,
            log: self.follower.identity().map(str::to_owned),
            applied: self.follower.applied(),
            fresh_until: self.follower.fresh_until(),
            follower: self.follower.counters(),
            acceptor: self.acceptor.counters(),
            outbox: self.acceptor.len(),
            members: self.members.count(),
            nodes,
            are_two,
            peers: self.shared.owned.count(),
            invalidations: [self.invalidations, self.shared.invalidated.dropped()],
            lost: self.members.lost().map(str::to_owned).collect(),
            complaint: None,
        });
    }

    /// Returns what the node tells the others of itself.
    fn standing(&self, now: Time) -> Standing {
        let (state, fresh_until) = (self.follower.state(now), self.follower.fresh_until());
        Standing {
            instance: self.instance.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: name_of(Some(state), fresh_until, now).to_owned(),
            applied: self.follower.applied(),
            behind: self.follower.behind(),
        }
    }

    /// Returns the nodes of the fleet for the figures, which change with each event, and whether
    /// two of them have this node's name.
    fn nodes(&mut self, now: Time) -> (Arc<[Member]>, bool) {
        let (nodes, again) = &mut self.shown_nodes;
        if *again <= now {
            *again = now + limits::SHOW_NODES;
            *nodes = self.members.list(now).collect();
        }
        let are_two = nodes.first().is_some_and(|own| own.are_two);
        if are_two && self.shared.logged.is_news(now, "two nodes") {
            tracing::error!("[fleet]: {}", two_nodes(&self.config.node));
        }
        (Arc::clone(nodes), are_two)
    }

    /// Shows requests which node owns an object, and what this one has executed.
    fn show_owners(&mut self) {
        let changes = self.members.offer_changes();
        if std::mem::replace(&mut self.shown_offers, changes) != changes {
            self.shared.owned.set_owners(self.members.owners());
        }
        let (log, applied) = self.place();
        self.shared.owned.set_applied(log, applied);
    }

    /// Returns the log that the node follows, and its last entry that the core has applied.
    fn place(&self) -> (Option<&str>, u64) {
        let position = self.follower.position();
        position.map_or((None, 0), |(log, applied)| (Some(log), applied))
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::ReadDescription { token } => self.describe(token),
            Action::Read {
                token,
                from,
                to,
                source,
            } => self.read(token, from, to, source),
            Action::Publish(publication) => {
                let Some(client) = self.client.clone() else {
                    return;
                };
                let done = self.done.clone();
                tokio::spawn(async move {
                    match client.publish(&publication).await {
                        Ok(sequence) => {
                            let _ = done.send(Done::Acknowledged(publication.id, sequence));
                        }
                        // The core publishes it again.
                        Err(error) => tracing::debug!(error, "an entry is not acknowledged"),
                    }
                });
            }
            Action::Apply { mark, message, .. } => {
                self.execute(&message);
                self.executed = Some(mark);
            }
            Action::MakeStale { mark, reason } => {
                match stale_because(reason) {
                    None => tracing::info!("[fleet]: the node follows the log from its end on"),
                    Some(why) => tracing::warn!("[fleet]: all that is stored is stale now: {why}"),
                }
                // What a hard purge may have named must not be served while the origin is down.
                self.purger
                    .purge(&everything(reason != StaleReason::Missed));
                self.executed = Some(mark);
                self.acceptor
                    .publish_again(clock::now(), reason, &mut self.out);
            }
            Action::Keep(kept) => self.changes.push(Change::Keep(kept)),
            Action::Journal(change) => self.changes.push(Change::Journal(change)),
            Action::Answer { key, answer } => {
                if let Some(waiting) = self.clients.remove(&key) {
                    self.answer(waiting, answer);
                }
            }
            Action::Say(note) => {
                let Some(client) = self.client.clone() else {
                    return;
                };
                tokio::spawn(async move { client.say(&note).await });
            }
            Action::ReadLeases => {
                let Some(client) = self.client.clone() else {
                    return;
                };
                let done = self.done.clone();
                tokio::spawn(async move {
                    let _ = done.send(Done::Leases(client.read_leases().await));
                });
            }
            Action::Waited { key, waited } => {
                if let Some((reply, answer)) = self.waiting.remove(&key) {
                    // The client may have gone.
                    let _ = reply.send(Ok(with_nodes(answer, &waited)));
                }
            }
        }
    }

    /// Answers a client, or lets it wait for all nodes.
    fn answer(&mut self, waiting: Waiting, answer: Answer) {
        let Waiting { id, waits, reply } = waiting;
        let mut answered = answered(&id, &answer, &self.follower, &self.config);
        match (&mut answered, answer) {
            (Ok(page), Answer::Acknowledged { sequence }) if waits => {
                if let Some(position) = self.position_of(&id, sequence) {
                    let key = self.waits.wait(clock::now(), position);
                    self.waiting.insert(key, (reply, page.take()));
                    return;
                }
                let waited = Waited {
                    members: None,
                    applied: 0,
                    lost: Vec::new(),
                };
                *page = with_nodes(page.take(), &waited);
            }
            (Ok(page), _) => page["members"] = self.members.count().into(),
            (Err(_), _) => {}
        }
        // The client may have gone.
        let _ = reply.send(answered);
    }

    /// Returns the place of a purge that the log has. `None` while the node follows no log, or if
    /// it has applied another entry there: the log was rolled back.
    fn position_of(&self, id: &Id, sequence: u64) -> Option<Position> {
        let (log, applied) = self.follower.position()?;
        let has_other = sequence <= applied && self.follower.id_of(sequence) != Some(id);
        (!has_other).then(|| Position {
            log: log.to_owned(),
            sequence,
            id: id.to_string(),
        })
    }

    fn describe(&mut self, token: Token) {
        let Some(client) = self.client.clone() else {
            return;
        };
        let done = self.done.clone();
        tokio::spawn(async move {
            let _ = done.send(Done::Described(token, client.describe().await));
        });
    }

    fn read(&mut self, token: Token, from: u64, to: u64, source: ReadFrom) {
        let Some(client) = self.client.clone() else {
            return;
        };
        let done = self.done.clone();
        tokio::spawn(async move {
            let answer = client.read(from, to, source).await;
            let _ = done.send(Done::Read(token, answer));
        });
    }

    /// Executes a purge of the log. A text that is no URL may be meant for something stored.
    fn execute(&self, message: &Message) {
        let url = |text: &String| text.parse::<Url>().ok();
        let mut texts = message.urls.iter().chain(&message.prefixes);
        if let Some(text) = texts.find(|text| url(text).is_none()) {
            let (text, from) = (excerpt(text), excerpt(&message.from));
            tracing::warn!(
                id = %message.id,
                from,
                "[fleet]: all that is stored is stale now: a purge names {text:?}, which is no URL"
            );
            self.purger.purge(&everything(true));
        }
        let scopes = message.urls.iter().filter_map(url).map(Scope::Exact);
        let prefixes = message.prefixes.iter().filter_map(url).map(Scope::Prefix);
        let tags = message.tags.iter().cloned().map(Scope::Tag);
        let everything = message.everything.then_some(Scope::Everything);
        for scope in scopes.chain(prefixes).chain(tags).chain(everything) {
            let soft = message.soft;
            let objects = self.purger.purge(&Purge { scope, soft });
            let from = excerpt(&message.from);
            tracing::debug!(id = %message.id, from, objects, "purged for the fleet");
        }
    }

    /// Waits for the disk, for all purges so far at once.
    fn settle(&mut self) {
        if self.is_settling {
            return;
        }
        let Some(mark) = self.executed.take() else {
            return;
        };
        self.is_settling = true;
        let (purger, done) = (self.purger.clone(), self.done.clone());
        tokio::spawn(async move {
            while let Err(error) = purger.settle().await {
                tracing::error!(%error, "[fleet]: a purge is not on disk");
                tokio::time::sleep(limits::SETTLE_AGAIN).await;
            }
            let _ = done.send(Done::Settled(mark));
        });
    }

    fn change_files(&mut self) {
        if self.changes.is_empty() {
            return;
        }
        let Some(mut files) = self.files.take() else {
            return;
        };
        let (changes, done) = (std::mem::take(&mut self.changes), self.done.clone());
        tokio::task::spawn_blocking(move || {
            let (keys, is_durable) = files.change(changes);
            let _ = done.send(Done::Changed(files, keys, is_durable));
        });
    }

    /// Leaves the log. What waits for the disk is written, and the folder is free then.
    async fn end(mut self, mut results: mpsc::UnboundedReceiver<Done>) {
        let clients: Vec<Waiting> = self.clients.drain().map(|(_, waiting)| waiting).collect();
        for waiting in clients {
            self.answer(waiting, Answer::Unknown);
        }
        self.waits.stop(&self.members, &mut self.out);
        // The folder keeps it for the next process.
        self.invalidate();
        let ended: Vec<Action> = self.out.drain().collect();
        let ended = ended
            .into_iter()
            .filter(|action| matches!(action, Action::Waited { .. } | Action::Journal(_)));
        ended.for_each(|action| self.act(action));
        if let Some(client) = &self.client
            && self.is_connected
            && self.shared.leaves.load(Ordering::Relaxed)
        {
            let left = self.members.leave();
            let said = async {
                client.say(&left).await;
                client.flush().await
            };
            let _ = tokio::time::timeout(limits::STOP / 4, said).await;
        }
        let written = async {
            while self.files.is_none() {
                match results.recv().await {
                    Some(Done::Changed(files, ..)) => self.files = Some(files),
                    Some(_) => {}
                    None => return,
                }
            }
            let Some(mut files) = self.files.take() else {
                return;
            };
            let changes = std::mem::take(&mut self.changes);
            let _ = tokio::task::spawn_blocking(move || drop(files.change(changes))).await;
        };
        // A disk may hang.
        let _ = tokio::time::timeout(limits::STOP / 2, written).await;
    }
}

/// Returns the reason for an operator; none at the first start.
fn stale_because(reason: StaleReason) -> Option<&'static str> {
    Some(match reason {
        StaleReason::Began => return None,
        StaleReason::Missed => "it is removed, as the log no longer has what the node has missed",
        StaleReason::RolledBack => "the log has lost entries",
        StaleReason::IdentityChanged => "it is another log than before",
        StaleReason::Barrier => "another node found that the log has lost entries",
        StaleReason::Unreadable => "an entry of the log cannot be read by this version",
    })
}

/// Returns the answer for a client.
fn answered(
    id: &Id,
    answer: &Answer,
    follower: &Follower,
    config: &FleetConfig,
) -> Result<Value, Unpublished> {
    let how_long = match config.folder {
        Some(_) => "",
        None => ", as long as this process runs",
    };
    match answer {
        Answer::Acknowledged { sequence } => Ok(json!({
            "id": **id,
            "log": follower.identity(),
            "position": sequence,
        })),
        Answer::Unknown => Err(Unpublished::Unknown(format!(
            "purged on this node; the log of the fleet does not answer, and the purge {id} is sent again until it does{how_long}"
        ))),
        Answer::NotJournaled => Err(Unpublished::Refused(
            "purged on this node only: [fleet] folder cannot be written; send it again".to_owned(),
        )),
    }
}

/// Adds to an answer which nodes have executed the purge.
fn with_nodes(mut answer: Value, waited: &Waited) -> Value {
    answer["members"] = waited.members.into();
    answer["applied"] = waited.applied.into();
    answer["lost"] = json!(waited.lost);
    answer
}

/// Returns the beginning of a text of another program, for the log.
fn excerpt(text: &str) -> &str {
    &text[..text.floor_char_boundary(limits::EXCERPT_BYTES)]
}

fn everything(soft: bool) -> Purge {
    Purge {
        scope: Scope::Everything,
        soft,
    }
}

async fn connect(
    config: FleetConfig,
    events: mpsc::UnboundedSender<Event>,
    done: mpsc::UnboundedSender<Done>,
) {
    loop {
        match LogClient::connect(&config, true, events.clone()).await {
            Ok(client) => match subscribe(client, &config.node).await {
                Ok(connected) => {
                    let _ = done.send(Done::Connected(Box::new(connected)));
                    return;
                }
                Err(error) => tracing::error!("{error}"),
            },
            Err(error) => tracing::error!("{error}"),
        }
        tokio::time::sleep(limits::REQUEST).await;
    }
}

async fn subscribe(client: LogClient, node: &str) -> Result<Connected, Error> {
    let entries = client.subscribe().await?;
    let notes = client.subscribe_notes(node).await?;
    Ok(Connected {
        client,
        entries,
        notes,
    })
}

fn nonce() -> u128 {
    let [high, low] = larder_host::entropy::words();
    u128::from(high) << 64 | u128::from(low)
}
