//! larder-http
