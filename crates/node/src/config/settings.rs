//! Values of keys from outside the file: flags of the command line and environment variables.
//!
//! A flag has precedence over a variable, a variable over the file, and the file over the default.

use super::declared;
use super::document::{self, Document};
use super::keys::{KEYS, Key, Kind, nearest};
use super::setting::Setting;
use super::{Config, ConfigError, DEFAULT, FleetTable};
use larder_units::system_message;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// Variables of Larder that name no key: the token of `larder ctl purge`, the seeds of tests, and
/// the process that an upgrade replaces.
const OTHER_VARIABLES: [&str; 5] = [
    "LARDER_TOKEN",
    "LARDER_SEEDS",
    crate::handover::VARIABLE,
    larder_client::command_key::KEY_VARIABLE,
    larder_client::command_key::CERTIFICATE_VARIABLE,
];

/// Everything that a configuration is made of: a file, environment variables and flags.
#[derive(Clone, Debug, Default)]
pub struct ConfigSources {
    file: Option<PathBuf>,
    /// In the order of precedence, the highest last.
    settings: Vec<Setting>,
    problems: Vec<String>,
}

/// What a file, variables and flags say together, right or wrong.
pub(crate) struct Composed {
    /// The configuration without the wrong keys; `None` if the text is no TOML.
    pub(crate) config: Option<Config>,
    /// One line for each problem.
    pub(crate) problems: Vec<String>,
    /// The keys and tables that are wrong, such as `http.cache`.
    pub(crate) damaged: Vec<String>,
    table: Table,
    places: Vec<(String, String)>,
}

/// A configuration, with the text of its values.
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// The values that differ from the defaults, as they were given.
    pub(crate) table: Table,
    places: Vec<(String, String)>,
}

impl ConfigSources {
    /// Combines a file with the variables of the process's environment.
    pub fn of_process(file: Option<&Path>) -> ConfigSources {
        let variables = std::env::vars_os().filter_map(|(name, value)| {
            let name = name
                .into_string()
                .ok()
                .filter(|name| name.starts_with("LARDER_"))?;
            Some((name, value.to_string_lossy().into_owned()))
        });
        ConfigSources::new(file, variables)
    }

    /// Combines a file with these variables.
    pub fn new(
        file: Option<&Path>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> ConfigSources {
        let mut sources = ConfigSources {
            file: file.map(Path::to_owned),
            ..ConfigSources::default()
        };
        let mut variables: Vec<_> = variables.into_iter().collect();
        // The value of a table comes before those of its keys.
        variables.sort();
        for (name, value) in variables {
            let key = KEYS.iter().find(|key| key.variable() == name);
            let is_other =
                OTHER_VARIABLES.contains(&name.as_str()) || is_service_link(&name, &value);
            match key {
                Some(key) => sources.add(name, key, value),
                None if is_other => {}
                None => {
                    let known: Vec<String> = KEYS.iter().map(Key::variable).collect();
                    let tip = nearest(&name, known.iter().map(String::as_str));
                    let tip = tip.map_or(String::new(), |best| format!("; did you mean {best}?"));
                    sources.problems.push(format!(
                        "{name}: the environment variable names no key{tip}"
                    ));
                }
            }
        }
        sources
    }

    /// Adds the value of a flag. `origin` is the flag as errors name it, and `key` the dotted path,
    /// such as `http.cache`.
    pub fn set(&mut self, origin: &str, key: &str, value: &str) {
        let known: Vec<String> = KEYS.iter().map(Key::dotted).collect();
        match KEYS.iter().zip(&known).find(|(_, dotted)| *dotted == key) {
            Some((key, _)) => self.add(origin.to_owned(), key, value.to_owned()),
            None => {
                let tip = nearest(key, known.iter().map(String::as_str));
                let tip = tip.map_or(String::new(), |best| format!("; did you mean {best}?"));
                self.problems
                    .push(format!("{origin}: no key has this name{tip}"));
            }
        }
    }

    fn add(&mut self, origin: String, key: &Key, value: String) {
        self.settings.push(Setting {
            origin,
            path: key.path.clone(),
            kind: key.kind,
            value,
        });
    }

    /// Returns true if a variable or a flag sets this key.
    pub fn sets(&self, key: &str) -> bool {
        self.settings
            .iter()
            .any(|setting| setting.path.join(".") == key)
    }

    /// Returns the file.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads the file, and combines it with the variables and flags.
    ///
    /// # Errors
    /// One line for each error: the place, the problem, and what was expected. The place is the
    /// file and the line, the variable, or the flag.
    pub fn load(&self) -> Result<Config, ConfigError> {
        self.read().map(|loaded| loaded.config)
    }

    /// Returns the configuration for one who needs only these keys, and the problems of others,
    /// which have their defaults then.
    ///
    /// # Errors
    /// All problems, if the file is no TOML, or one of these keys is wrong.
    pub fn load_for(&self, keys: &[&str]) -> Result<(Config, Vec<String>), ConfigError> {
        let composed = self.compose()?;
        let is_within = |inner: &str, outer: &str| {
            let rest = inner.strip_prefix(outer);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let is_needed = |wrong: &String| {
            keys.iter()
                .any(|key| is_within(key, wrong) || is_within(wrong, key))
        };
        match composed.config {
            Some(config) if !composed.damaged.iter().any(is_needed) => {
                Ok((config, composed.problems))
            }
            _ => Err(ConfigError(composed.problems)),
        }
    }

    pub(crate) fn read(&self) -> Result<Loaded, ConfigError> {
        self.compose()?.loaded()
    }

    /// Reads the file, and combines it with the variables and flags, also if a key is wrong.
    ///
    /// # Errors
    /// One line if the file cannot be read.
    pub(crate) fn compose(&self) -> Result<Composed, ConfigError> {
        let (text, source) = match &self.file {
            None => (String::new(), "the configuration".to_owned()),
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| {
                    ConfigError(vec![format!(
                        "cannot read {}: {}",
                        path.display(),
                        system_message(&error)
                    )])
                })?;
                (text, path.display().to_string())
            }
        };
        let mut composed = compose(&text, &source, &self.settings, &self.problems);
        if let Some(config) = &mut composed.config {
            config.source = self
                .file
                .as_ref()
                .map(|path| path.canonicalize().unwrap_or_else(|_| path.to_owned()));
        }
        Ok(composed)
    }

    /// Returns the effective value of every key, as TOML, with its place behind it. Keys without a
    /// value are left out.
    ///
    /// # Errors
    /// As [`ConfigSources::load`].
    pub fn effective(&self) -> Result<String, ConfigError> {
        let loaded = self.read()?;
        let defaults: Table = DEFAULT.parse().unwrap_or_default();
        let place = |key: &Key| {
            let dotted = key.dotted();
            let place = loaded.places.iter().find(|(path, _)| *path == dotted);
            place.map_or("set", |(_, place)| place.as_str())
        };
        let (mut text, mut title) = (String::new(), String::new());
        for key in values() {
            let (value, place) = match (at(&loaded.table, &key.path), at(&defaults, &key.path)) {
                (Some(value), _) => (value, place(key)),
                (None, Some(value)) => (value, "default"),
                (None, None) => continue,
            };
            let Some((name, tables)) = key.path.split_last() else {
                continue;
            };
            let table = tables.join(".");
            // Writing to a string cannot fail.
            if table != title {
                let gap = if title.is_empty() { "" } else { "\n" };
                let _ = writeln!(text, "{gap}[{table}]");
                title = table;
            }
            let _ = if key.dotted() == "admin.token" && value.as_str() != Some("") {
                writeln!(text, "# {name}: a secret   # {place}")
            } else {
                writeln!(text, "{name} = {value}   # {place}")
            };
        }
        Ok(text)
    }
}

impl Loaded {
    /// Returns the keys that differ from their defaults: key, value, default and place. The token
    /// is left out, except that it is set; of a list of tables, it has only their number.
    pub(crate) fn differences(&self) -> Vec<[String; 4]> {
        let defaults: Table = DEFAULT.parse().unwrap_or_default();
        let difference = |key: &Key| {
            let (value, default) = (at(&self.table, &key.path)?, at(&defaults, &key.path));
            let dotted = key.dotted();
            let place = self
                .places
                .iter()
                .find(|(path, _)| *path == dotted)
                .map_or("set", |(_, place)| place);
            let value = match value {
                _ if dotted == "admin.token" => "a secret".to_owned(),
                // Rules may set fields with secrets.
                Value::Array(entries) if entries.iter().any(Value::is_table) => {
                    match entries.len() {
                        1 => "1 entry".to_owned(),
                        count => format!("{count} entries"),
                    }
                }
                value => value.to_string(),
            };
            let default = default.map_or_else(String::new, ToString::to_string);
            (value != default).then(|| [dotted, value, default, place.to_owned()])
        };
        values().into_iter().filter_map(difference).collect()
    }
}

/// Returns the keys that are no tables, those of a table in the order of the default configuration.
fn values() -> Vec<&'static Key> {
    let mut values: Vec<&Key> = KEYS.iter().filter(|key| key.kind != Kind::Table).collect();
    let table = |key: &Key| key.path[..key.path.len() - 1].to_vec();
    for keys in values.chunk_by_mut(|one, other| table(one) == table(other)) {
        keys.sort_by_key(|key| declared::position(&key.dotted()));
    }
    values
}

/// Returns the value at a path.
fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    match (table.get(*first)?, rest) {
        (value, []) => Some(value),
        (Value::Table(inner), rest) => at(inner, rest),
        _ => None,
    }
}

impl Composed {
    /// Returns the configuration if nothing is wrong.
    ///
    /// # Errors
    /// The problems.
    pub(super) fn loaded(self) -> Result<Loaded, ConfigError> {
        match self.config {
            Some(config) if self.problems.is_empty() => Ok(Loaded {
                config,
                table: self.table,
                places: self.places,
            }),
            _ => Err(ConfigError(self.problems)),
        }
    }
}

/// Combines the text of a file with settings. `problems` were found before.
pub(super) fn compose(
    text: &str,
    source: &str,
    settings: &[Setting],
    problems: &[String],
) -> Composed {
    let Document {
        mut config,
        problems: wrong,
        damaged,
        table,
        places,
    } = document::read(text, source, settings);
    let mut problems = problems.to_owned();
    problems.extend(wrong);
    if let Some(config) = &config {
        let contradictions = config.contradictions();
        problems.extend(
            contradictions
                .iter()
                .filter(|problem| !damaged.iter().any(|key| depends_on(problem, key)))
                .map(|problem| format!("{}: {problem}", place_of(problem, source, settings))),
        );
        let missing = config
            .http
            .missing_servers()
            .filter(|_| problems.is_empty());
        problems.extend(
            missing.map(|problem| format!("{}: {problem}", place_of(&problem, source, settings))),
        );
    }
    if let Some(config) = &mut config {
        config.http.proxy.peers = config.fleet.as_ref().and_then(FleetTable::peers);
    }
    Composed {
        config,
        problems,
        damaged,
        table,
        places,
    }
}

/// Returns true if a contradiction may come from the absence of a wrong key: it names the key, or a
/// table that may be gone with it.
fn depends_on(problem: &str, damaged: &str) -> bool {
    let (table, key) = damaged.rsplit_once('.').unwrap_or(("", damaged));
    let is_part = |char: char| char.is_alphanumeric() || char == '_';
    problem.split(|char| !is_part(char)).any(|word| word == key)
        || (table.contains('.') && problem.contains(&format!("[{table}]")))
}

/// Returns the place of a contradiction: the last setting whose key it names, as in `[http]
/// policy`, otherwise the file.
fn place_of<'a>(problem: &str, source: &'a str, settings: &'a [Setting]) -> &'a str {
    let names = |setting: &&Setting| {
        let (key, table) = setting.path.split_last().unwrap_or((&"", &[]));
        problem.contains(&format!("[{}] {key}", table.join(".")))
            || problem.contains(&format!("[{}]", setting.path.join(".")))
    };
    settings
        .iter()
        .rev()
        .find(names)
        .map_or(source, |setting| setting.origin.as_str())
}

/// Returns whether a variable tells where a service is whose name begins with `larder`: Kubernetes
/// and Docker set such variables in every container beside it (`LARDER_WEB_SERVICE_HOST` and
/// `LARDER_WEB_PORT_80_TCP_ADDR` of the service `larder-web`).
fn is_service_link(name: &str, value: &str) -> bool {
    let words: Vec<&str> = name.split('_').collect();
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let is_of_port = words.windows(3).any(|three| {
        three[0] == "PORT" && is_number(three[1]) && ["TCP", "UDP", "SCTP"].contains(&three[2])
    });
    (name.ends_with("_SERVICE_HOST") && value.parse::<IpAddr>().is_ok())
        || (name.contains("_SERVICE_PORT") && is_number(value))
        || is_of_port
        || (name.ends_with("_PORT") && value.contains("://"))
        || name.starts_with("LARDER_ENV_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(
        file: Option<&Path>,
        variables: &[(&str, &str)],
        flags: &[(&str, &str)],
    ) -> ConfigSources {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut sources = ConfigSources::new(file, variables);
        for (key, value) in flags {
            sources.set(&format!("--set {key}"), key, value);
        }
        sources
    }

    fn refusal(variables: &[(&str, &str)], flags: &[(&str, &str)]) -> String {
        sources(None, variables, flags)
            .load()
            .expect_err("a refusal")
            .to_string()
    }

    /// Failure: a node does not start in a pod, because Kubernetes has told it where a service is
    /// whose name begins with `larder`.
    #[test]
    fn a_service_beside_the_node_is_taken_for_a_key() {
        let of_services = [
            ("LARDER_PORT", "tcp://10.0.0.1:80"),
            ("LARDER_SERVICE_HOST", "10.0.0.1"),
            ("LARDER_SERVICE_PORT", "80"),
            ("LARDER_HTTP_PORT", "tcp://10.0.0.1:80"),
            ("LARDER_HTTP_PORT_80_TCP", "tcp://10.0.0.1:80"),
            ("LARDER_HTTP_PORT_80_TCP_ADDR", "10.0.0.1"),
            ("LARDER_HTTP_PORT_80_TCP_PORT", "80"),
            ("LARDER_HTTP_PORT_80_TCP_PROTO", "tcp"),
            ("LARDER_MY_SHOP_SERVICE_HOST", "10.0.0.2"),
            ("LARDER_MY_SHOP_SERVICE_PORT_ADMIN", "8081"),
            ("LARDER_NDN_PORT_6363_UDP", "udp://10.0.0.3:6363"),
            ("LARDER_ENV_GREETING", "hello"),
        ];
        let config = sources(None, &of_services, &[]).load();
        assert!(config.is_ok(), "{}", config.unwrap_err());
        for mistake in [
            ("LARDER_HTTP_PORT", "8080"),
            ("LARDER_HTTP_LISTENER", "1"),
            ("LARDER_PORT", "8080"),
            ("LARDER_HTTP_SERVICE_HOST", "1"),
            ("LARDER_ADMIN_LISTEN_PORT_1", "2"),
        ] {
            let refusal = refusal(&[mistake], &[]);
            assert!(refusal.contains(mistake.0), "{refusal}");
        }
    }

    /// Failure: a value of lower precedence wins, or one kind of value cannot be given.
    #[test]
    fn a_value_of_lower_precedence_wins() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("larder.toml");
        std::fs::write(
            &file,
            "[http]\ncache = \"1MiB\"\nslice = \"3MiB\"\nthreads = 2\n[http.limits]\nheader_fields = 50\n",
        )
        .unwrap();
        let variables = [
            ("LARDER_HTTP_CACHE", "2MiB"),
            ("LARDER_HTTP_THREADS", "3"),
            ("LARDER_HTTP_TARGETS", "A-Control, B-Control"),
            ("LARDER_HTTP_SHARE_COOKIES", "true"),
            ("LARDER_HTTP_TIMEOUTS_ORIGIN_READ", "7s"),
            ("LARDER_NDN_LARGEST_PACKET", "9000"),
            ("LARDER_SEEDS", "0..9"),
            ("LARDER_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
        ];
        let flags = [
            ("http.cache", "4MiB"),
            ("http.origins", "[{ servers = [\"http://a:1\"] }]"),
            ("http.disk.path", "/a b"),
            ("http.disk.capacity", "1GiB"),
            ("http.slice", "0"),
            ("http.slice", "\"2MiB\""),
        ];
        let sources = sources(Some(&file), &variables, &flags);
        let config = sources.load().unwrap_or_else(|error| panic!("{error}"));
        let proxy = &config.http.proxy;
        assert_eq!(
            (proxy.cache.capacity.to_string(), proxy.threads),
            ("4MiB".to_owned(), 3)
        );
        assert_eq!(proxy.cache.targets, ["a-control", "b-control"]);
        assert!(proxy.cache.share_cookies);
        assert_eq!(proxy.timeouts.origin_read.as_secs(), 7);
        assert_eq!(config.ndn.largest_packet, 9000);
        assert_eq!(proxy.limits.header_fields, 50);
        assert_eq!(config.http.origins.len(), 1);
        assert_eq!(proxy.cache.slice.to_string(), "2MiB");
        assert_eq!(config.http.proxy.disk.unwrap().path, Path::new("/a b"));
        let effective = sources.effective().unwrap();
        let line = |key: &str| {
            effective
                .lines()
                .find(|line| line.starts_with(key))
                .unwrap_or("")
                .to_owned()
        };
        assert_eq!(line("cache"), "cache = \"4MiB\"   # --set http.cache");
        assert_eq!(line("threads"), "threads = 3   # LARDER_HTTP_THREADS");
        assert_eq!(line("max_object"), "max_object = \"64MiB\"   # default");
        assert_eq!(
            line("header_fields"),
            format!("header_fields = 50   # {}:6", file.display())
        );
        // The printed configuration is a configuration.
        assert!(Config::parse(&effective, "printed").is_ok(), "{effective}");
    }

    /// Failure: an IPv6 address of a flag is taken for an array, or several addresses for one.
    #[test]
    fn an_address_is_taken_for_an_array() {
        let listeners = |value: &str| {
            let sources = sources(None, &[], &[("http.listen", value)]);
            let config = sources.load().unwrap_or_else(|error| panic!("{error}"));
            let listen = config.http.proxy.listen.iter();
            listen
                .map(|listen| listen.address.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(listeners("[::]:80"), ["[::]:80"]);
        assert_eq!(listeners("\"[::]:80\""), ["[::]:80"]);
        let both = ["127.0.0.1:80", "[::1]:80"];
        assert_eq!(listeners("127.0.0.1:80, [::1]:80"), both);
        assert_eq!(listeners("[\"127.0.0.1:80\", \"[::1]:80\"]"), both);
        assert_eq!(listeners("unix:/a"), ["unix:/a"]);
        let udp = sources(None, &[], &[("ndn.udp", "[::]:6363")])
            .load()
            .unwrap();
        assert_eq!(udp.ndn.udp.unwrap().to_string(), "[::]:6363");
    }

    /// Failure: an error does not say which flag or variable is wrong, or a mistake passes.
    #[test]
    fn an_error_does_not_name_the_flag_or_the_variable() {
        type Values<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(Values<'_>, Values<'_>, &[&str])] = &[
            (
                &[("LARDER_HTTP_CAHCE", "1")],
                &[],
                &["LARDER_HTTP_CAHCE", "did you mean LARDER_HTTP_CACHE?"],
            ),
            (
                &[("LARDER_HTTP_CACHE", "12 parsecs")],
                &[],
                &["LARDER_HTTP_CACHE: ", "12 parsecs"],
            ),
            (
                &[("LARDER_HTTP_THREADS", "many")],
                &[],
                &["LARDER_HTTP_THREADS: ", "many", "a whole number"],
            ),
            (
                &[],
                &[("http.cahce", "1")],
                &["--set http.cahce: ", "did you mean http.cache?"],
            ),
            (
                &[],
                &[("http.policy", "lur")],
                &["--set http.policy: ", "lur", "lru"],
            ),
            (
                &[],
                &[("http.policy", "lookahead+lru")],
                &["--set http.policy: ", "[http] policy"],
            ),
            (&[], &[("http.origins", "[{")], &["--set http.origins: "]),
            (
                &[],
                &[("http.origins", "[{servrs=[]}]")],
                &["--set http.origins: ", "did you mean `servers`?"],
            ),
            (
                &[],
                &[("http.disk.path", "/a")],
                &["--set http.disk.path: ", "`capacity` is missing"],
            ),
            (&[("LARDER_HTTP", "3")], &[], &["LARDER_HTTP: "]),
            (
                &[("LARDER_ADMIN_TOKEN", "secret")],
                &[],
                &["LARDER_ADMIN_TOKEN: ", "16 or more"],
            ),
        ];
        for (variables, flags, parts) in cases {
            let said = refusal(variables, flags);
            assert!(
                parts.iter().all(|part| said.contains(part)),
                "{variables:?} {flags:?} gave {said:?}"
            );
            assert!(!said.contains('\n') && !said.contains("secret"), "{said:?}");
        }
        let both = refusal(
            &[("LARDER_HTTP_THREADS", "many")],
            &[("http.policy", "lur")],
        );
        assert_eq!(both.lines().count(), 2, "{both}");
    }

    /// Failure: the effective configuration shows the token.
    #[test]
    fn a_secret_is_printed() {
        let token = "0123456789abcdef";
        let printed = sources(None, &[("LARDER_ADMIN_TOKEN", token)], &[])
            .effective()
            .unwrap();
        let differences = sources(None, &[("LARDER_ADMIN_TOKEN", token)], &[])
            .read()
            .unwrap()
            .differences();
        assert_eq!(
            differences,
            [["admin.token", "a secret", "\"\"", "LARDER_ADMIN_TOKEN"]]
        );
        assert!(
            !printed.contains(token) && printed.contains("LARDER_ADMIN_TOKEN"),
            "{printed}"
        );
    }
}
