//! larder-packet
