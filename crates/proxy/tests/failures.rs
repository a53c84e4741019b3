//! One file for each kind of failure, and one program for all, which is linked once. Tests that are
//! programs of their own are in Cargo.toml, with their reasons.

mod a_slow_upload_marks_servers_down;
mod clients_wait_for_a_failing_origin;
mod cookies_given_to_others;
mod errors_of_one_request_stored;
#[cfg(feature = "http3")]
mod http3_client;
#[cfg(feature = "http3")]
mod http3_differs;
#[cfg(feature = "http3")]
mod http3_floods;
#[cfg(feature = "http3")]
mod http3_requests_lost;
mod http_access_log;
mod http_bad_origin;
mod http_bursts;
mod http_cache_poisoning;
mod http_certificates;
mod http_compression;
mod http_console;
mod http_disk;
mod http_few_shut_out_many;
mod http_fields_misread;
mod http_interim_lost;
mod http_large_heads_mark_servers_down;
mod http_large_objects;
mod http_limits;
mod http_listeners;
mod http_origin_messages_misread;
mod http_origin_pools;
mod http_origins_by_http2;
mod http_plain_cases;
mod http_plain_hits;
mod http_policy_never_tunes;
mod http_purge_by_anyone;
mod http_requests_evade_rules;
mod http_rules;
mod http_server_names;
mod http_several_origins;
mod http_silent_bodies_cut;
mod http_slices_one_by_one;
mod http_slow_clients;
mod http_smuggling;
mod http_spellings_multiply_variants;
mod http_static_files;
mod http_stop_cuts_requests;
mod http_tls;
mod http_tls_identities;
mod http_tls_origin;
mod http_trusted_proxies;
mod http_upgrades;
mod many_variants_never_hit;
mod names;
mod objects_mixed_up;
mod purges_of_a_fleet_missed;
mod purges_of_other_things_empty_the_cache;
mod reloads_mix_configurations;
mod reloads_reach_the_origin_one_by_one;
mod slow_clocks_never_hit;
mod slow_readers_make_disk_objects_unavailable;
mod variants_wait_for_each_other;
mod wire;
