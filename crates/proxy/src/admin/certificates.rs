//! The figures of certificates by ACME.

use larder_acme_host::{Certificates, HostStatus};
use larder_admin::Metrics;
use serde_json::{Value, json};

/// Returns the hosts with what is known of their certificates. Times are seconds since 1970.
pub(crate) fn page(certificates: &Certificates) -> Value {
    let host = |status: &HostStatus| {
        json!({
            "host": status.host,
            "is_issued": status.validity.is_some(),
            "not_before": status.validity.map(|validity| validity.not_before.0),
            "not_after": status.validity.map(|validity| validity.not_after.0),
            "renewal": status.renewal.map(|time| time.0),
            "orders": status.orders,
            "failures": status.failures,
            "last_error": status.last_error,
        })
    };
    Value::Array(certificates.status().iter().map(host).collect())
}

/// Writes the metrics of the hosts.
pub(crate) fn metrics(certificates: &Certificates, metrics: &mut Metrics<'_, '_>) {
    let all = certificates.status();
    if all.is_empty() {
        return;
    }
    let gauges = |figure: fn(&HostStatus) -> f64| {
        all.iter()
            .map(move |status| (status.host.as_str(), figure(status)))
    };
    metrics.gauges(
        "larder_http_certificate_issued",
        "1 where the host has a certificate of the authority, 0 where a self-signed one stands in",
        "host",
        gauges(|status| f64::from(u8::from(status.validity.is_some()))),
    );
    metrics.gauges(
        "larder_http_certificate_expiry_timestamp_seconds",
        "The time at which the host's certificate expires, in seconds since 1970; 0 without one",
        "host",
        gauges(|status| {
            status
                .validity
                .map_or(0.0, |validity| validity.not_after.0 as f64)
        }),
    );
    metrics.gauges(
        "larder_http_certificate_lifetime_seconds",
        "The time for which the host's certificate is valid in all; 0 without one",
        "host",
        gauges(|status| {
            status
                .validity
                .map_or(0.0, |validity| validity.lifetime().as_secs_f64())
        }),
    );
    let orders = all
        .iter()
        .map(|status| (status.host.as_str(), status.orders));
    metrics.counters(
        "larder_http_certificate_orders",
        "Certificates that the authority issued",
        "host",
        orders,
    );
    let failures = all
        .iter()
        .map(|status| (status.host.as_str(), status.failures));
    metrics.counters(
        "larder_http_certificate_failures",
        "Orders of certificates that failed",
        "host",
        failures,
    );
}
