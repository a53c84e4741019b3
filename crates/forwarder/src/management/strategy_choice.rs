//! `strategy-choice`: the strategy of a prefix (NFD wiki, "Strategy Choice").

use super::managed_forwarder::ManagedForwarder;
use super::{Content, Refusal, Reply, Request, require};
use crate::outbox::Outbox;
use crate::strategy::StrategyError;
use larder_packet::mgmt::StrategyChoice;
use larder_packet::{ControlParameters, NameRef};
use larder_units::Time;

pub(super) fn set(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    _: &mut Outbox,
) -> Result<Reply, Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    let asked = require(request.parameters.strategy.as_ref(), "Strategy")?;
    let instance = forwarder.set_strategy(&prefix, asked).map_err(|error| {
        let code = match error {
            // NFD finds the next version that it has, which refuses the older one.
            StrategyError::Version { is_older: true, .. } | StrategyError::Parameters { .. } => 409,
            StrategyError::Unknown { .. }
            | StrategyError::NotRegistered { .. }
            | StrategyError::Version { .. } => 404,
            StrategyError::PrefixTooLong => 414,
            StrategyError::Full => 507,
        };
        (code, error.to_string())
    })?;
    Ok(Reply::Done(ControlParameters {
        name: Some(prefix),
        strategy: Some(instance),
        ..ControlParameters::default()
    }))
}

pub(super) fn unset(
    forwarder: &mut ManagedForwarder<'_>,
    request: &Request<'_>,
    _: &mut Outbox,
) -> Result<Reply, Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    if prefix.as_name().is_empty() {
        return Err((
            400,
            "the strategy of / cannot be unset, only set".to_owned(),
        ));
    }
    forwarder.unset_strategy(&prefix);
    Ok(Reply::Done(ControlParameters {
        name: Some(prefix),
        ..ControlParameters::default()
    }))
}

pub(super) fn list(
    forwarder: &ManagedForwarder<'_>,
    _: Time,
    _: NameRef<'_>,
    content: &mut Content,
) -> Result<(), Refusal> {
    forwarder.strategies(&mut |name, strategy| {
        content.push(&StrategyChoice {
            name,
            strategy: strategy.clone(),
        })
    })
}
