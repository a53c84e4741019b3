//! Features and settings of the kernel that Larder uses.

use super::system_calls;
use super::{Finding, Level, Topic};
use crate::config::Config;
use crate::limits;
use quinn_udp::UdpSocketState;
use socket2::{Domain, Socket, Type};
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};

/// The backlog of listeners for HTTP, which the kernel limits.
const BACKLOG: u64 = 4096;

/// Tries the features, and reads the limits of sockets. Without a configuration, everything counts.
pub(super) fn findings(config: Option<&Config>) -> Vec<Finding> {
    let has_ndn_udp = config.is_none_or(|config| config.ndn.enabled && config.ndn.udp.is_some());
    let has_http3 = config.is_none_or(|config| {
        let tls = config.http.proxy.tls.as_ref();
        config.http.enabled && tls.is_some_and(|tls| tls.http3 && !tls.listen.is_empty())
    });
    let uses_udp = has_ndn_udp || has_http3;
    let has_tcp = config.is_none_or(|config| config.http.enabled);
    let mut findings = vec![ipv6(), reuse_port()];
    findings.extend(udp());
    findings.extend(limit(
        "net.core.rmem_max",
        limits::UDP_RECEIVE_BYTES as u64,
        uses_udp,
        "bytes of a UDP socket's receive buffer: bursts of datagrams may be lost",
    ));
    findings.extend(limit(
        "net.core.somaxconn",
        BACKLOG,
        has_tcp,
        "connections that wait for a listener: after a burst, clients repeat theirs a second later",
    ));
    findings
}

fn ipv6() -> Finding {
    match UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) {
        Ok(_) => Finding::ok(Topic::Kernel, "IPv6", "works"),
        Err(error) => Finding::new(
            Level::Note,
            Topic::Kernel,
            "IPv6",
            format!("does not work: {}", larder_units::system_message(&error)),
            "listen on 0.0.0.0 instead of [::], or enable it (net.ipv6.conf.all.disable_ipv6)",
        ),
    }
}

fn reuse_port() -> Finding {
    let place = "SO_REUSEPORT";
    let tried =
        Socket::new(Domain::IPV4, Type::DGRAM, None).and_then(|socket| socket.set_reuse_port(true));
    match tried {
        Ok(()) => Finding::ok(Topic::Kernel, place, "works"),
        Err(error) => Finding::new(
            Level::Warning,
            Topic::Kernel,
            place,
            format!("does not work: {error}"),
            "UDP has one thread, and a reload cannot bind overlapping addresses: use Linux 3.9 or later",
        ),
    }
}

/// Tries what makes many datagrams cheap.
fn udp() -> Vec<Finding> {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) else {
        let remedy = "a sandbox or a firewall forbids it: allow it";
        let text = "no socket can be bound on 127.0.0.1";
        return vec![Finding::new(
            Level::Error,
            Topic::Kernel,
            "UDP",
            text,
            remedy,
        )];
    };
    let mut findings = Vec::new();
    match UdpSocketState::new((&socket).into()) {
        Ok(state) => {
            let offload = |place, segments: usize| match segments {
                0 | 1 => Finding::new(
                    Level::Note,
                    Topic::Kernel,
                    place,
                    "does not work: each datagram takes the way through the kernel alone",
                    "use Linux 5.0 or later, without a sandbox such as gVisor",
                ),
                segments => Finding::ok(
                    Topic::Kernel,
                    place,
                    format!("works, {segments} datagrams at once"),
                ),
            };
            findings.push(offload("UDP GSO", state.max_gso_segments()));
            findings.push(offload("UDP GRO", state.gro_segments()));
        }
        Err(error) => findings.push(Finding::new(
            Level::Error,
            Topic::Kernel,
            "UDP",
            format!("the options of its sockets cannot be set: {error}"),
            "HTTP/3 and NDN over UDP need them: allow setsockopt in the sandbox",
        )),
    }
    findings.push(match system_calls::try_recvmmsg(&socket) {
        Ok(()) => Finding::ok(Topic::Kernel, "recvmmsg", "works"),
        Err(error) => Finding::new(
            Level::Warning,
            Topic::Kernel,
            "recvmmsg",
            format!("does not work: {error}"),
            "HTTP/3 and NDN over UDP need it: allow it in the sandbox (seccomp)",
        ),
    });
    findings
}

/// Compares a limit of the kernel with what Larder asks for. A container may not show it.
fn limit(name: &str, wanted: u64, is_used: bool, what: &str) -> Option<Finding> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    let value: u64 = std::fs::read_to_string(path).ok()?.trim().parse().ok()?;
    Some(if value >= wanted {
        Finding::ok(Topic::Kernel, name, format!("{value}"))
    } else {
        let level = if is_used { Level::Warning } else { Level::Note };
        Finding::new(
            level,
            Topic::Kernel,
            name,
            format!("{value} {what}"),
            format!("`sysctl -w {name}={wanted}`, and a line in /etc/sysctl.d"),
        )
    })
}
