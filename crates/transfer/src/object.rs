//! A consumer's knowledge of a versioned object: the names of its segments, its end, and its
//! digests if a manifest contains them.

use crate::error::{EndProblem, FetchError, MetadataProblem};
use crate::manifest::{Digest, KnownDigests, MANIFEST_KEYWORD, ManifestRoot, Tree};
use crate::window::Window;
use larder_packet::tlv::{Tlv, nni_len};
use larder_packet::{Component, Data, Name, NameRef, types};

/// The state of a versioned object. See the module's documentation.
pub(crate) struct Object {
    pub prefix: Name,
    pub end: Option<End>,
    highest_arrived: Option<u64>,
    pub first_segment_bytes: Option<u64>,
    pub announced_bytes: Option<u64>,
    manifest: Option<Manifest>,
    /// True if all content was delivered.
    pub done: bool,
}

/// The manifest's name, and the digests known so far.
struct Manifest {
    name: Name,
    digests: KnownDigests,
}

/// The end of an object.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub last: u64,
    /// True if the last segment itself or a signed manifest named it.
    pub firm: bool,
}

impl Object {
    pub fn new(prefix: Name, announced_bytes: Option<u64>) -> Self {
        Object {
            prefix,
            end: None,
            highest_arrived: None,
            first_segment_bytes: None,
            announced_bytes,
            manifest: None,
            done: false,
        }
    }

    /// Records the manifest of authenticated metadata; it is fetched before the segments. Returns
    /// `None` if such a manifest is not possible.
    pub fn expect_manifest(&mut self, root: ManifestRoot) -> Option<()> {
        let end = self.end.as_mut()?;
        end.firm = true;
        let tree = Tree::new(end.last.checked_add(1)?, root.fan_out)?;
        let mut name = self.prefix.clone();
        name.push_keyword(MANIFEST_KEYWORD);
        self.manifest = Some(Manifest {
            name,
            digests: KnownDigests::new(tree, root.digest),
        });
        Some(())
    }

    /// Returns true while the manifest is being fetched.
    pub fn reads_manifest(&self) -> bool {
        self.manifest
            .as_ref()
            .is_some_and(|manifest| !manifest.digests.is_whole())
    }

    /// Returns the prefix of the packets that are being fetched.
    pub fn request_prefix(&self) -> &Name {
        match &self.manifest {
            Some(manifest) if !manifest.digests.is_whole() => &manifest.name,
            _ => &self.prefix,
        }
    }

    /// Returns the last packet under that prefix that may be requested now, if known.
    pub fn last_to_request(&self) -> Option<u64> {
        match &self.manifest {
            Some(manifest) if !manifest.digests.is_whole() => {
                Some(manifest.digests.last_known_packet())
            }
            _ => self.end.map(|end| end.last),
        }
    }

    /// Returns the digest of that packet.
    pub fn digest_of(&self, number: u64) -> Option<&Digest> {
        let digests = &self.manifest.as_ref()?.digests;
        if digests.is_whole() {
            digests.of_segment(number)
        } else {
            digests.of_packet(number)
        }
    }

    /// Handles a packet of the manifest, whose digest is right.
    pub fn on_manifest(
        &mut self,
        number: u64,
        data: &Data<'_>,
        window: &mut Window,
    ) -> Result<(), FetchError> {
        let Some(Manifest { digests, .. }) = &mut self.manifest else {
            return Ok(());
        };
        if !digests.is_content(number, data.content) {
            return Err(FetchError::BadMetadata {
                name: data.name.to_name(),
                problem: MetadataProblem::Manifest,
            });
        }
        window.deliver(number, data.content, &mut |content| digests.extend(content));
        if digests.is_whole() {
            *window = Window::default();
        }
        Ok(())
    }

    /// Records a segment and its statement about the end.
    pub fn arrived(&mut self, segment: u64, data: &Data<'_>) -> Result<(), EndProblem> {
        let highest = self
            .highest_arrived
            .map_or(segment, |highest| highest.max(segment));
        self.highest_arrived = Some(highest);
        if segment == 0 {
            self.first_segment_bytes = Some(data.content.len() as u64);
        }
        let Some(component) = data.final_block_id else {
            return Ok(());
        };
        let last = final_segment(component)?;
        if last < highest {
            return Err(EndProblem::Shrank {
                last,
                arrived: highest,
            });
        }
        match self.end {
            Some(End {
                last: was,
                firm: true,
            }) if was != last => Err(EndProblem::Moved { last, was }),
            Some(End { firm: true, .. }) => Ok(()),
            _ => {
                self.end = Some(End {
                    last,
                    firm: last == segment,
                });
                Ok(())
            }
        }
    }
}

/// Returns the number of the segment under `prefix` that has this name.
pub(crate) fn segment_under(prefix: &Name, name: NameRef<'_>) -> Option<u64> {
    // Components delimit themselves, so a byte prefix that ends with a component is a name prefix.
    segment_number(name.as_bytes().strip_prefix(prefix.as_name().as_bytes())?)
}

/// Returns the number if `components` is one segment component in its shortest form.
pub(crate) fn segment_number(components: &[u8]) -> Option<u64> {
    let component = Tlv::only(components, types::SEGMENT.into()).ok()?;
    let number = component.number().ok()?;
    (component.value.len() == nni_len(number)).then_some(number)
}

fn final_segment(component: Component<'_>) -> Result<u64, EndProblem> {
    let number = (component.typ == types::SEGMENT)
        .then(|| component.as_number())
        .flatten();
    number.ok_or(EndProblem::NotASegment)
}
