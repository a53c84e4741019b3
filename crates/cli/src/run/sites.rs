//! The short command: `larder run https://example.com --origin http://127.0.0.1:3000`.
//!
//! A site is a few keys of the configuration: listeners at ports 80 and 443, a redirect, and
//! certificates by ACME.

use crate::failure::Failure;
use larder_node::ConfigSources;
use std::path::{Path, PathBuf};

/// What stands behind `larder run`: a configuration file, sites, or both.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// The configuration file.
    pub(crate) file: Option<PathBuf>,
    /// The hosts of the sites.
    pub(crate) hosts: Vec<String>,
}

impl Places {
    /// Sorts the arguments.
    ///
    /// # Errors
    /// One line: an argument is no site, or there are two files.
    pub(crate) fn new(arguments: &[PathBuf]) -> Result<Places, Failure> {
        let mut places = Places::default();
        for argument in arguments {
            let text = argument.to_string_lossy();
            if let Some(host) = text.strip_prefix("https://") {
                places.hosts.push(host_of(&text, host)?);
            } else if text.starts_with("http://") {
                return Err(Failure::usage(format!(
                    "{text}: a site has the form https://HOST; Larder redirects http:// to it"
                )));
            } else if let Some(file) = places.file.replace(argument.clone()) {
                let file = file.display();
                return Err(Failure::usage(format!(
                    "{file} and {text}: expected one configuration file"
                )));
            }
        }
        Ok(places)
    }

    /// Adds the keys of the sites to the sources. Flags that come later have precedence.
    pub(crate) fn add_to(&self, sources: &mut ConfigSources) {
        let Some(first) = self.hosts.first() else {
            return;
        };
        let (origin, folder) = (format!("https://{first}"), state_folder().join("acme"));
        let hosts = self.hosts.join(",");
        for (key, value) in [
            ("http.listen", any_address(80)),
            ("http.tls.listen", any_address(443)),
            ("http.redirect_to_https", "true".to_owned()),
            ("http.tls.acme.hosts", hosts),
            ("http.tls.acme.folder", folder.display().to_string()),
        ] {
            sources.set(&origin, key, &value);
        }
    }
}

/// Returns the host of a site.
fn host_of(url: &str, host: &str) -> Result<String, Failure> {
    let host = host.strip_suffix('/').unwrap_or(host);
    if host.is_empty() || host.contains(['/', ':', ',', '?', '#']) {
        return Err(Failure::usage(format!(
            "{url}: a site has the form https://HOST, without port and path; Larder listens on ports 80 and 443"
        )));
    }
    Ok(host.to_owned())
}

/// Returns the address that reaches this port from everywhere, in quotes: of IPv6, which takes IPv4
/// too, unless the system has none.
pub(crate) fn any_address(port: u16) -> String {
    if Path::new("/proc/net/if_inet6").exists() {
        format!("\"[::]:{port}\"")
    } else {
        format!("\"0.0.0.0:{port}\"")
    }
}

/// Returns the folder for what outlives a restart: systemd's for the service, that of the system
/// for root, or that of the user (XDG Base Directory Specification).
pub(crate) fn state_folder() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    // systemd names several, separated by colons.
    if let Some(folders) = variable("STATE_DIRECTORY") {
        let folders = folders.to_string_lossy().into_owned();
        return PathBuf::from(folders.split(':').next().unwrap_or_default());
    }
    let system = PathBuf::from("/var/lib/larder");
    if rustix::process::geteuid().is_root() {
        return system;
    }
    let home = || variable("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = variable("XDG_STATE_HOME").map(PathBuf::from).or_else(home);
    state.map_or(system, |state| state.join("larder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: a key of the short command is refused, or another value has precedence.
    #[test]
    fn the_short_command_is_no_configuration() {
        let places = places(&["https://a.test", "https://b.test"]).unwrap();
        let mut sources = ConfigSources::default();
        places.add_to(&mut sources);
        sources.set("--origin", "http.origin", "http://127.0.0.1:1");
        let config = sources.load().unwrap_or_else(|error| panic!("{error}"));
        let proxy = config.http.proxy;
        let tls = proxy.tls.unwrap();
        assert!(proxy.redirect_to_https);
        let port = |listen: &larder_host::ListenConfig| listen.address.tcp().unwrap().port();
        assert_eq!((port(&proxy.listen[0]), port(&tls.listen[0])), (80, 443));
        let acme = tls.acme.unwrap();
        let hosts: Vec<&str> = acme.hosts.iter().map(|host| host.as_str()).collect();
        assert_eq!(hosts, ["a.test", "b.test"]);
        assert!(acme.folder.ends_with("acme"));
    }

    fn places(arguments: &[&str]) -> Result<Places, String> {
        let arguments: Vec<PathBuf> = arguments.iter().map(PathBuf::from).collect();
        Places::new(&arguments).map_err(|failure| failure.message)
    }

    /// Failure: the short command serves another site than it names, or does not say what is wrong.
    #[test]
    fn the_short_command_misreads_a_site() {
        let both = places(&["https://example.com/", "a.toml", "https://www.example.com"]).unwrap();
        assert_eq!(both.file.as_deref(), Some(Path::new("a.toml")));
        assert_eq!(both.hosts, ["example.com", "www.example.com"]);
        for (wrong, part) in [
            (vec!["http://example.com"], "https://HOST"),
            (vec!["https://example.com:8443"], "without port"),
            (vec!["https://example.com/a"], "without port"),
            (vec!["https://"], "https://HOST"),
            (vec!["a.toml", "b.toml"], "one configuration file"),
        ] {
            let refused = places(&wrong).unwrap_err();
            assert!(
                refused.contains(part) && !refused.contains('\n'),
                "{refused}"
            );
        }
    }
}
