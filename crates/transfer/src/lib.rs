//! larder-transfer
