//! larder-policy
