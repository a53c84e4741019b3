//! What a consumer knows of a versioned object: where its segments are, where it ends, and their
//! digests where a manifest told them.

use crate::error::{EndProblem, FetchError, MetadataProblem};
use crate::manifest::{Digest, KnownDigests, MANIFEST_KEYWORD, ManifestRoot, Tree};
use crate::window::Window;
use larder_packet::tlv::{Tlv, nni_len};
use larder_packet::{Component, Data, Name, NameRef, types};

/// See the module's documentation.
pub(crate) struct Object {
    pub prefix: Name,
    pub end: Option<End>,
    highest_arrived: Option<u64>,
    pub first_segment_bytes: Option<u64>,
    pub announced_bytes: Option<u64>,
    manifest: Option<Manifest>,
    /// Everything was delivered.
    pub done: bool,
}

/// Under which name the manifest is, and what it has told so far.
struct Manifest {
    name: Name,
    digests: KnownDigests,
}

/// Where an object ends.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub last: u64,
    /// The segment itself said so, or who signed the manifest.
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

    /// The metadata, which can be believed, names a manifest: it comes before the segments. `None`
    /// where it is none that can be.
    pub fn expect_manifest(&mut self, root: ManifestRoot) -> Option<()> {
        let end = self.end.as_mut()?;
        end.firm = true;
        let tree = Tree::new(end.last.checked_add(1)?, root.fan_out)?;
        let mut name = self.prefix.clone();
        name.push_keyword(MANIFEST_KEYWORD);
        self.manifest = Some(Manifest { name, digests: KnownDigests::new(tree, root.digest) });
        Some(())
    }

    /// Whether the manifest is what is being asked for.
    pub fn reads_manifest(&self) -> bool {
        self.manifest.as_ref().is_some_and(|manifest| !manifest.digests.is_whole())
    }

    /// The prefix of the packets that are being asked for.
    pub fn asked_under(&self) -> &Name {
        match &self.manifest {
            Some(manifest) if !manifest.digests.is_whole() => &manifest.name,
            _ => &self.prefix,
        }
    }

    /// The last one there that may be asked for now, where it is known.
    pub fn last_to_ask_for(&self) -> Option<u64> {
        match &self.manifest {
            Some(manifest) if !manifest.digests.is_whole() => Some(manifest.digests.last_known_packet()),
            _ => self.end.map(|end| end.last),
        }
    }

    /// The digest of that packet.
    pub fn digest_of(&self, number: u64) -> Option<&Digest> {
        let digests = &self.manifest.as_ref()?.digests;
        if digests.is_whole() { digests.of_segment(number) } else { digests.of_packet(number) }
    }

    /// Takes a packet of the manifest, whose digest is right.
    pub fn on_manifest(&mut self, number: u64, data: &Data<'_>, window: &mut Window) -> Result<(), FetchError> {
        let Some(Manifest { digests, .. }) = &mut self.manifest else { return Ok(()) };
        if !digests.is_content(number, data.content) {
            return Err(FetchError::BadMetadata { name: data.name.to_name(), problem: MetadataProblem::Manifest });
        }
        window.deliver(number, data.content, &mut |content| digests.extend(content));
        if digests.is_whole() {
            *window = Window::default();
        }
        Ok(())
    }

    /// Notes a segment and what it says of the end.
    pub fn arrived(&mut self, segment: u64, data: &Data<'_>) -> Result<(), EndProblem> {
        let highest = self.highest_arrived.map_or(segment, |highest| highest.max(segment));
        self.highest_arrived = Some(highest);
        if segment == 0 {
            self.first_segment_bytes = Some(data.content.len() as u64);
        }
        let Some(component) = data.final_block_id else { return Ok(()) };
        let last = final_segment(component)?;
        if last < highest {
            return Err(EndProblem::Shrank { last, arrived: highest });
        }
        match self.end {
            Some(End { last: was, firm: true }) if was != last => Err(EndProblem::Moved { last, was }),
            Some(End { firm: true, .. }) => Ok(()),
            _ => {
                self.end = Some(End { last, firm: last == segment });
                Ok(())
            }
        }
    }
}

/// The number of the segment under `prefix` that has this name.
pub(crate) fn segment_under(prefix: &Name, name: NameRef<'_>) -> Option<u64> {
    // Components delimit themselves, so a byte prefix that ends with a component is a name prefix.
    segment_number(name.as_bytes().strip_prefix(prefix.as_name().as_bytes())?)
}

/// The number, where `components` is one segment component in its shortest form.
pub(crate) fn segment_number(components: &[u8]) -> Option<u64> {
    let component = Tlv::only(components, types::SEGMENT.into()).ok()?;
    let number = component.number().ok()?;
    (component.value.len() == nni_len(number)).then_some(number)
}

fn final_segment(component: Component<'_>) -> Result<u64, EndProblem> {
    let number = (component.typ == types::SEGMENT).then(|| component.as_number()).flatten();
    number.ok_or(EndProblem::NotASegment)
}
