//! larder-replay
