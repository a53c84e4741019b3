//! The error of a listener that cannot be bound.

use crate::listen_address::ListenAddress;
use larder_units::system_message;
use std::{error, fmt, io};

/// The reason why an address cannot be bound: one line with the setting, the problem and the
/// remedy.
#[derive(Debug)]
pub struct ListenError {
    /// The table and the key, such as `[http] listen`.
    setting: String,
    address: ListenAddress,
    error: io::Error,
}

impl ListenError {
    /// Returns the error of the listener that a setting, such as `[http] listen`, describes.
    pub fn new(setting: &str, address: &ListenAddress, error: io::Error) -> ListenError {
        ListenError {
            setting: setting.to_owned(),
            address: address.clone(),
            error,
        }
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenError {
            setting,
            address,
            error,
        } = self;
        match error.kind() {
            io::ErrorKind::AddrInUse => write!(
                f,
                "{setting}: {address} is in use; stop the other program or set another {}",
                address.kind()
            ),
            io::ErrorKind::PermissionDenied if address.tcp().is_some() => write!(
                f,
                "{setting}: cannot listen on {address}: {}; ports below 1024 need root, or the capability \
                 CAP_NET_BIND_SERVICE: setcap cap_net_bind_service=+ep on the program, or AmbientCapabilities of systemd",
                system_message(error)
            ),
            _ => write!(
                f,
                "{setting}: cannot listen on {address}: {}",
                system_message(error)
            ),
        }
    }
}

impl error::Error for ListenError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self.error.kind() {
            io::ErrorKind::AddrInUse => None,
            _ => Some(&self.error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Failure: an error does not say which setting is wrong, or what to do.
    #[test]
    fn an_error_names_the_setting_and_the_remedy() {
        let address = ListenAddress::Tcp(([127, 0, 0, 1], 80).into());
        let refused =
            |kind| ListenError::new("[http] listen", &address, io::Error::from(kind)).to_string();
        assert_eq!(
            refused(io::ErrorKind::AddrInUse),
            "[http] listen: 127.0.0.1:80 is in use; stop the other program or set another port"
        );
        let denied = refused(io::ErrorKind::PermissionDenied);
        assert!(denied.starts_with("[http] listen: cannot listen on 127.0.0.1:80: "));
        assert!(denied.contains("CAP_NET_BIND_SERVICE"), "{denied}");
    }
}
