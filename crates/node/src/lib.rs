//! larder-node
