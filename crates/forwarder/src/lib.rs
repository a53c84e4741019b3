//! larder-forwarder
