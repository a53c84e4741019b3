//! The tests of the cache from outside, one file per kind of failure. They are one program, which
//! builds faster than a program per file.

mod authorization_leaked;
mod coded_forms_mixed;
mod confirmed_hits;
mod evicted_bodies_unbounded;
mod hop_by_hop_leaked;
mod invalidation_missed;
mod memory_unbounded;
mod objects_wrong;
mod oracle;
mod panics_on_anything;
mod plain_hit_differs;
mod popular_object_evicted;
mod private_response_shared;
mod purge_incomplete;
mod purged_on_disk;
mod recalled_bodies_unbounded;
mod rules_overrule_too_much;
mod stage;
mod stale_data_served;
mod stale_refused_or_overdone;
mod stampede_reaches_origin;
mod targeted_control_missed;
mod torn_parts_combined;
mod truncated_fill_stored;
mod untrusted_served;
mod validation_wrong;
mod vary_ignored;
mod world;
