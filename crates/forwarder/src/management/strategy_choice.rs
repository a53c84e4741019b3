//! `strategy-choice`: which strategy forwards under a prefix (NFD wiki, "Strategy Choice").

use super::{Content, Refusal, Reply, Request, require};
use crate::forwarder::Forwarder;
use crate::outbox::Outbox;
use crate::strategy::StrategyError;
use larder_packet::mgmt::StrategyChoice;
use larder_packet::{ControlParameters, NameRef};
use larder_units::Time;

pub(super) fn set(forwarder: &mut Forwarder, request: &Request<'_>, _: &mut Outbox) -> Result<Reply, Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    let asked = require(request.parameters.strategy.as_ref(), "Strategy")?;
    let instance = forwarder.set_strategy(&prefix, asked).map_err(|error| {
        let code = match error {
            StrategyError::Unknown { .. } | StrategyError::NotRegistered { .. } | StrategyError::Version { .. } => 404,
            StrategyError::Parameters { .. } => 409,
            StrategyError::PrefixTooLong => 414,
            StrategyError::Full => 507,
        };
        (code, error.to_string())
    })?;
    Ok(Reply::Done(ControlParameters { name: Some(prefix), strategy: Some(instance), ..ControlParameters::default() }))
}

pub(super) fn unset(forwarder: &mut Forwarder, request: &Request<'_>, _: &mut Outbox) -> Result<Reply, Refusal> {
    let prefix = require(request.parameters.name.clone(), "Name")?;
    if prefix.as_name().is_empty() {
        return Err((400, "the strategy of / cannot be unset, only set".to_owned()));
    }
    forwarder.unset_strategy(&prefix);
    Ok(Reply::Done(ControlParameters { name: Some(prefix), ..ControlParameters::default() }))
}

pub(super) fn list(forwarder: &Forwarder, _: Time, _: NameRef<'_>, content: &mut Content) -> Result<(), Refusal> {
    for (name, choice) in forwarder.strategies.iter() {
        content.push(&StrategyChoice { name, strategy: choice.instance().clone() })?;
    }
    Ok(())
}
