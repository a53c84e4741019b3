//! The account at the authority.

use crate::client::AuthorityClient;
use crate::config::AcmeConfig;
use crate::error::Error;
use crate::folder::Folder;
use crate::limits;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use instant_acme::{Account, AccountCredentials, ExternalAccountKey, NewAccount};
use larder_acme::account_file_name;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The authority, with the account of this folder.
pub(crate) struct Authority {
    config: AcmeConfig,
    folder: Folder,
    tls: Arc<ClientConfig>,
    account: Mutex<Option<Account>>,
}

/// The reason why there is no account: one line.
#[derive(Debug)]
pub(crate) enum AccountError {
    /// The authority refuses it, or cannot be reached.
    Authority(instant_acme::Error),
    /// This node fails.
    Local(String),
}

impl Authority {
    pub(crate) fn new(config: &AcmeConfig) -> Result<Authority, Error> {
        Ok(Authority {
            config: config.clone(),
            folder: Folder::open(&config.folder)?,
            tls: trust(config)?,
            account: Mutex::default(),
        })
    }

    /// Returns the account: that of the folder, or a new one.
    pub(crate) async fn account(&self) -> Result<Account, AccountError> {
        let mut account = self.account.lock().await;
        if let Some(account) = &*account {
            return Ok(account.clone());
        }
        let name = account_file_name(&self.config.directory);
        let _lock = self.lock_account().await?;
        let found = match self.folder.read(&name).map_err(local(&name))? {
            Some(stored) => self.stored(&stored, &name).await?,
            None => self.create(&name).await?,
        };
        *account = Some(found.clone());
        Ok(found)
    }

    /// Forgets an account that the authority does not know any more.
    pub(crate) async fn forget_account(&self) {
        *self.account.lock().await = None;
        let name = account_file_name(&self.config.directory);
        if let Err(error) = self.folder.remove(&name) {
            tracing::error!(name, %error, "the file of an unknown account stays");
        }
    }

    async fn stored(&self, stored: &[u8], name: &str) -> Result<Account, AccountError> {
        let credentials: AccountCredentials =
            serde_json::from_slice(stored).map_err(local(name))?;
        let builder = Account::builder_with_http(self.client());
        let account = builder.from_credentials(credentials).await;
        account.map_err(AccountError::Authority)
    }

    async fn create(&self, name: &str) -> Result<Account, AccountError> {
        let contact = self
            .config
            .email
            .as_ref()
            .map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.as_deref().into_iter().collect();
        let wanted = NewAccount {
            contact: &contact,
            terms_of_service_agreed: true,
            only_return_existing: false,
        };
        let external = external_account(&self.config).map_err(local(name))?;
        let builder = Account::builder_with_http(self.client());
        let created = builder.create(&wanted, self.config.directory.clone(), external.as_ref());
        let (account, credentials) = created.await.map_err(AccountError::Authority)?;
        let text = serde_json::to_vec(&credentials).map_err(local(name))?;
        self.folder.write(name, &text).map_err(local(name))?;
        tracing::info!(
            directory = self.config.directory,
            "a new account at the authority"
        );
        Ok(account)
    }

    fn client(&self) -> Box<AuthorityClient> {
        Box::new(AuthorityClient::new(Arc::clone(&self.tls)))
    }

    /// Waits for another process that creates the account.
    async fn lock_account(&self) -> Result<File, AccountError> {
        const NAME: &str = "account.lock";
        let end = Instant::now() + limits::ACCOUNT_WAIT;
        loop {
            match self.folder.lock(NAME).map_err(local(NAME))? {
                Some(lock) => return Ok(lock),
                None if Instant::now() > end => {
                    let text = format!("{NAME}: another process has held it for too long");
                    return Err(AccountError::Local(text));
                }
                None => tokio::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

fn local<E: std::fmt::Display>(name: &str) -> impl Fn(E) -> AccountError {
    move |error| AccountError::Local(format!("{name}: {error}"))
}

/// Reads the key of the operator's account at the authority.
pub(crate) fn external_account(config: &AcmeConfig) -> Result<Option<ExternalAccountKey>, Error> {
    let Some(eab) = &config.eab else {
        return Ok(None);
    };
    let path = &eab.hmac_file;
    let text =
        std::fs::read_to_string(path).map_err(|error| Error::HmacFile(path.clone(), error))?;
    let key = BASE64_URL_SAFE_NO_PAD.decode(text.trim().trim_end_matches('='));
    match key {
        Ok(key) if !key.is_empty() => Ok(Some(ExternalAccountKey::new(eab.key_id.clone(), &key))),
        _ => Err(Error::HmacKey(path.clone())),
    }
}

/// Reads the certificates that verify the authority's own.
pub(crate) fn trust(config: &AcmeConfig) -> Result<Arc<ClientConfig>, Error> {
    let ca = config.directory_ca.as_ref();
    let certificates = match ca {
        Some(path) => {
            let of_file = |error| Error::DirectoryCa(path.clone(), error);
            let all = CertificateDer::pem_file_iter(path).map_err(of_file)?;
            all.collect::<Result<Vec<_>, _>>().map_err(of_file)?
        }
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(certificates);
    if usable == 0 {
        return Err(Error::NoTrustAnchor(ca.cloned()));
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let builder = builder
        .with_safe_default_protocol_versions()
        .map_err(Error::Tls)?;
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(tls))
}

/// Tries what a start needs: the folder and the files. It asks no authority, and writes nothing.
///
/// # Errors
/// One line: the setting, the problem and the remedy.
pub fn check(config: &AcmeConfig) -> Result<(), Error> {
    Folder::check(&config.folder)?;
    external_account(config)?;
    trust(config)?;
    Ok(())
}
