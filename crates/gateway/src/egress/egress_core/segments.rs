//! The segments of bodies: those that are here are sent, others are waited for.

use super::{EgressCore, Waiter};
use crate::egress::body::Found;
use crate::egress::exchange::{Outcome, Reply};
use crate::naming::Object;
use larder_units::Time;

impl EgressCore {
    pub(super) fn on_segment(
        &mut self,
        now: Time,
        object: &Object,
        version: u64,
        segment: u64,
        waiter: Waiter,
        out: &mut Outcome,
    ) {
        let Waiter { token, until, .. } = waiter;
        let name = object.versioned(version);
        let Some(body) = self.reply_cache.bodies.get_mut(name.as_bytes()) else {
            self.figures.gone += 1;
            let gone = self.signer.gone(name, segment);
            return out.replies.extend(gone.map(|wire| Reply {
                token,
                wire,
                no_cache: true,
            }));
        };
        match body.ask(now, segment) {
            Found::Here => {
                let reply = body.data(segment, self.signer.signer()).map(|wire| Reply {
                    token,
                    wire,
                    no_cache: body.no_cache(),
                });
                self.figures.segments += u64::from(reply.is_some());
                out.replies.extend(reply);
            }
            Found::NotYet => body.wait(segment, token, until),
            Found::PastEnd => {}
            Found::Gone => {
                self.figures.gone += 1;
                let gone = self.signer.gone(name.clone(), segment);
                out.replies.extend(gone.map(|wire| Reply {
                    token,
                    wire,
                    no_cache: true,
                }));
            }
        }
        let Some(body) = self.reply_cache.bodies.get_mut(name.as_bytes()) else {
            return;
        };
        out.grants
            .extend(body.grant().map(|bytes| (body.id(), bytes)));
        if body.is_shared_no_more() {
            let question = body.question().to_vec();
            self.reply_cache.forget_question(&question);
        }
    }

    pub(super) fn serve_waiting(&mut self, key: &[u8], out: &mut Outcome) {
        let Some(body) = self.reply_cache.bodies.get_mut(key) else {
            return;
        };
        let (mut sent, mut gone) = (0, Vec::new());
        while let Some((segment, token, found)) = body.next_waiting() {
            match found {
                Found::Here => {
                    let wire = body.data(segment, self.signer.signer());
                    out.replies.extend(wire.map(|wire| Reply {
                        token,
                        wire,
                        no_cache: body.no_cache(),
                    }));
                    sent += 1;
                }
                Found::Gone => gone.push((segment, token)),
                Found::NotYet | Found::PastEnd => {}
            }
        }
        body.trim();
        self.figures.segments += sent;
        let name = body.name().clone();
        for (segment, token) in gone {
            let gone = self.signer.gone(name.clone(), segment);
            out.replies.extend(gone.map(|wire| Reply {
                token,
                wire,
                no_cache: true,
            }));
        }
    }
}
