//! The reload of a running node. It prepares everything that can fail: it reads files, binds
//! listeners, and starts parts that did not run. Then it switches, which cannot fail. So a refused
//! reload changes nothing.

use super::{Node, Part};
use crate::config::Config;
use crate::error::{NodeError, ReloadError};
use crate::inherited::Inherited;
use crate::ndn::Ndn;
use crate::reload::{Changes, RunningConfig};
use crate::{limits, log, parts, preflight, supervisor};
use larder_admin::{CommandOutcome, CommandReply};
use larder_fleet_host::Member;
use larder_gateway::egress::Egress;
use larder_gateway::ingress::Ingress;
use larder_proxy::{Admin, Http, HttpReload};
use serde_json::json;

/// What replaces running parts: `Some(None)` where a part ends, and `None` where it stays.
#[derive(Default)]
struct Next {
    admin: Option<Option<Admin>>,
    ndn: Option<Option<Part<Ndn>>>,
    egress: Option<Option<Part<Egress>>>,
    ingress: Option<Option<Part<Ingress>>>,
    /// The HTTP side of a node that had none, still without listeners.
    http: Option<Part<Http>>,
    http_reload: Option<HttpReload>,
}

impl Node {
    /// Applies changes of the configuration that need no upgrade, and logs the others. Tells the
    /// outcome to the client that has sent the command, if there is one.
    pub(super) fn reload(&mut self, running: &mut RunningConfig, reply: Option<CommandReply>) {
        supervisor::reloading();
        let (has_ndn, has_http) = (self.ndn.is_some(), self.http.is_some());
        let runs = |table: &str| match table {
            "ndn" => has_ndn,
            "http" => has_http,
            _ => true,
        };
        let result = running.reread(runs, |config, changes| self.apply(config, changes));
        // The client may wait at the admin server that stops next.
        if let Some(reply) = reply {
            reply.send(outcome(&result));
        }
        if let Some(former) = self.former_admin.take() {
            // Others have sent commands there, too.
            former.set_stopping();
            former.stop();
        }
        match result {
            Ok(Changes { applied, waiting }) if waiting.is_empty() => {
                tracing::info!(?applied, "reloaded");
                self.process.set_settings(running.differences().to_vec());
            }
            Ok(Changes { applied, waiting }) => {
                tracing::warn!(?applied, needs_an_upgrade = ?waiting, "reloaded, but not all of it");
                self.process.set_settings(running.differences().to_vec());
            }
            Err(error) => tracing::error!(%error, "not reloaded"),
        }
        supervisor::ready();
    }

    fn apply(&mut self, config: &Config, changes: &Changes) -> Result<(), NodeError> {
        let mut next = Next::default();
        // The event loop of NDN is last: if it refuses its part, nothing has changed there.
        match self
            .prepare(config, changes, &mut next)
            .and_then(|()| self.reload_ndn(config))
        {
            Ok(()) => {
                for warning in preflight::warnings(config) {
                    tracing::warn!("{warning}");
                }
                self.switch(config, next)
            }
            Err(error) => {
                next.stop();
                Err(error)
            }
        }
    }

    fn prepare(
        &self,
        config: &Config,
        changes: &Changes,
        next: &mut Next,
    ) -> Result<(), NodeError> {
        if changes.apply_to("admin.listen") {
            let bind = |address| match &self.admin {
                Some(running) => running.bind_beside(address),
                None => Admin::bind(address),
            };
            let open = |address| Admin::open(bind(address)?, &self.console);
            next.admin = Some(config.admin.listen.map(open).transpose()?);
        }
        if config.ndn.enabled != self.ndn.is_some() {
            next.ndn = Some(if config.ndn.enabled {
                Some(self.start_ndn(config, &mut Inherited::default())?)
            } else {
                None
            });
        }
        if self.http.is_none() && parts::http(&config.http, None).is_some() {
            let mut idle = parts::http_without_listeners(&config.http);
            idle.fleet = self.fleet.as_ref().map(Member::fleet);
            idle.peers.clone_from(&self.peers);
            next.http = Some(Part::start(self.end_of("http"), |on_end| {
                Http::start(&idle, on_end)
            })?);
        }
        self.prepare_pair(config, changes, next)?;
        if let Some(http) = next.http.as_ref().or(self.http.as_ref()) {
            let ingress = next.ingress.as_ref().unwrap_or(&self.ingress).as_deref();
            let mut wanted = parts::http_with(&config.http, ingress);
            wanted.peers.clone_from(&self.peers);
            next.http_reload = Some(http.reload(&wanted)?);
        }
        Ok(())
    }

    fn reload_ndn(&mut self, config: &Config) -> Result<(), NodeError> {
        if config.ndn.enabled {
            self.warn_of_certificates(config);
        }
        match self.ndn.as_mut().filter(|_| config.ndn.enabled) {
            Some(ndn) => Ok(ndn.reload(&config.ndn)?),
            None => Ok(()),
        }
    }

    /// Starts the ends of HTTP over NDN that have changed, or whose forwarder is another one.
    fn prepare_pair(
        &self,
        config: &Config,
        changes: &Changes,
        next: &mut Next,
    ) -> Result<(), NodeError> {
        let ndn = next.ndn.as_ref().unwrap_or(&self.ndn).as_ref();
        let forwarder = || ndn.and_then(|ndn| ndn.unix.clone()).unwrap_or_default();
        let is_moved = next.ndn.is_some();
        let has_authority = changes.apply_to("http.origin_ca") && self.egress.is_some();
        let has_key = ["ndn.command_key", "ndn.command_certificate"]
            .into_iter()
            .any(|key| changes.apply_to(key));
        if is_moved
            || has_authority
            || (has_key && self.egress.is_some())
            || changes.apply_to("ndn.gateway")
        {
            next.egress = Some(self.start_egress(config, forwarder())?);
        }
        if is_moved || next.http.is_some() || changes.apply_to("http.upstream") {
            let has_http = self.http.is_some() || next.http.is_some();
            next.ingress = Some(if has_http {
                self.start_ingress(config, forwarder())?
            } else {
                None
            });
        }
        Ok(())
    }

    fn switch(&mut self, config: &Config, next: Next) -> Result<(), NodeError> {
        if let Some(http) = next.http {
            self.purging = Some(http.purging(None));
            self.has_disk |= config.http.proxy.disk.is_some();
            self.http = Some(http);
            self.follow_fleet()?;
        }
        if let (Some(http), Some(reload)) = (&self.http, next.http_reload) {
            // Its policy was tried when it was read.
            http.take_over(reload)?;
        }
        if let Some(ingress) = next.ingress {
            let before = std::mem::replace(&mut self.ingress, ingress);
            before.map(Part::into_stopping).into_iter().for_each(retire);
        }
        if let Some(egress) = next.egress {
            let before = std::mem::replace(&mut self.egress, egress);
            before
                .map(Part::into_stopping)
                .into_iter()
                .for_each(Egress::stop);
        }
        if let Some(ndn) = next.ndn {
            self.has_disk |= ndn.is_some() && config.ndn.disk.is_some();
            let before = std::mem::replace(&mut self.ndn, ndn);
            before
                .map(Part::into_stopping)
                .into_iter()
                .for_each(Ndn::stop);
        }
        log::set(&config.log);
        if let Some(purging) = &self.purging {
            purging.set_token(config.admin.token.as_deref());
        }
        self.commands.set_token(config.admin.token.as_deref());
        if self.console.set_token(config.admin.token.as_deref()) {
            // Their clients have the former token, or none.
            self.admin.iter().for_each(Admin::end_streams);
        }
        self.origin = config.http.origin.clone();
        let before = next
            .admin
            .and_then(|admin| std::mem::replace(&mut self.admin, admin));
        self.show();
        self.former_admin = before;
        Ok(())
    }
}

impl Next {
    /// Ends what a refused reload has started.
    fn stop(self) {
        self.admin.flatten().into_iter().for_each(Admin::stop);
        self.http
            .map(Part::into_stopping)
            .into_iter()
            .for_each(Http::stop);
        self.ingress
            .flatten()
            .map(Part::into_stopping)
            .into_iter()
            .for_each(Ingress::stop);
        self.egress
            .flatten()
            .map(Part::into_stopping)
            .into_iter()
            .for_each(Egress::stop);
        self.ndn
            .flatten()
            .map(Part::into_stopping)
            .into_iter()
            .for_each(Ndn::stop);
    }
}

/// Returns what a client learns of a reload.
fn outcome(result: &Result<Changes, ReloadError>) -> CommandOutcome {
    match result {
        Ok(Changes { applied, waiting }) => {
            Ok(json!({ "applied": applied, "needs_an_upgrade": waiting }))
        }
        Err(error) => Err(format!("not reloaded, nothing has changed:\n{error}")),
    }
}

/// Stops an ingress when the requests that use it have ended.
fn retire(ingress: Ingress) {
    let end = move || {
        while !ingress.is_idle() {
            std::thread::sleep(limits::DRAIN_LOOK);
        }
        ingress.stop();
    };
    if let Err(error) = std::thread::Builder::new()
        .name("edge-end".to_owned())
        .spawn(end)
    {
        tracing::error!(%error, "cannot wait for requests over NDN: they break off");
    }
}
