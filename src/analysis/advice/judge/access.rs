//! Rules about the accesses of programs.

use super::super::super::files::MovedBytes;
use super::super::finding::AdviceAmount::{Bytes, Count, Ns};
use super::super::finding::{AdviceFinding, AdvicePlace};
use super::super::rule::RuleId;
use super::Judge;
use super::places::{AdvicePlaces, PlaceSum, of_habits};
use super::thresholds::{LONG_NS, MANY, MUCH};
use crate::event::syscall_table::CallClass;
use crate::operation::io_class::IoClass;

/// Accesses of a file for each of its opens, below which small accesses are the whole file.
const OF_AN_OPEN: u64 = 4;

/// Bytes for each sync, below which a sync is of little data.
const SYNC_BYTES: u64 = 64 << 10;

/// Syncs of files that are always synced, below which there is no finding.
const SOME: u64 = 10;

/// Calls for names below which there is no finding.
const METADATA_MIN: u64 = 1000;

impl Judge<'_> {
    fn small(&self, moved: &MovedBytes, opens: u64) -> Option<PlaceSum> {
        let MovedBytes { count, bytes, .. } = *moved;
        let is_many = count >= MANY && count >= opens.max(1).saturating_mul(OF_AN_OPEN);
        // With accesses of a page each, half of them would do.
        let is_small = count >= bytes.div_ceil(self.page_bytes).saturating_mul(2);
        (is_many && is_small).then_some(PlaceSum { count, bytes, time_ns: 0 })
    }

    fn small_finding(
        &self,
        rule: RuleId,
        noun: &'static str,
        places: Vec<AdvicePlace>,
    ) -> Option<AdviceFinding> {
        let places = AdvicePlaces::new(places, false);
        let PlaceSum { count, bytes, .. } = places.sum;
        let needed = Count(bytes.div_ceil(self.page_bytes), "page in them");
        let mean = Bytes(bytes / count.max(1), "on average");
        let amounts = vec![Count(count, noun), Bytes(bytes, "in all"), mean, needed];
        (count > 0).then(|| places.finding(rule, amounts))
    }

    pub(super) fn small_reads(&self) -> Option<AdviceFinding> {
        let files = self.files(|used| self.small(&used.read, used.opens));
        self.small_finding(RuleId::SmallReads, "read", files)
    }

    pub(super) fn small_writes(&self) -> Option<AdviceFinding> {
        let files = self.files(|used| self.small(&used.written, used.opens));
        self.small_finding(RuleId::SmallWrites, "write", files)
    }

    pub(super) fn reread(&self) -> Option<AdviceFinding> {
        let files = self.files(|used| {
            let (count, bytes) = (used.read.count, used.read.again);
            (bytes > 0).then_some(PlaceSum { count, bytes, time_ns: 0 })
        });
        let places = AdvicePlaces::new(files, true);
        let bytes = places.sum.bytes;
        let all = self.input.summary.all().read;
        let amounts = vec![Bytes(bytes, "read again"), Bytes(all, "read in all")];
        (bytes >= MUCH).then(|| places.finding(RuleId::Reread, amounts))
    }

    pub(super) fn written_removed(&self) -> Option<AdviceFinding> {
        let files = self.files(|used| {
            let (count, bytes) = (used.removals, used.written_then_removed);
            (bytes > 0).then_some(PlaceSum { count, bytes, time_ns: 0 })
        });
        let places = AdvicePlaces::new(files, true);
        let bytes = places.sum.bytes;
        let amounts = vec![Bytes(bytes, "written and removed"), Count(places.sum.count, "removal")];
        (bytes >= MUCH).then(|| places.finding(RuleId::WrittenRemoved, amounts))
    }

    pub(super) fn missing_lookups(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let [all, missing] = habits.lookups;
        let places = AdvicePlaces::new(of_habits(&habits.missing, &habits.names, |_| true), false);
        let amounts = vec![
            Count(missing, "call that found nothing"),
            Count(all, "call with a path"),
            Ns(places.sum.time_ns, "in them"),
        ];
        let is_much = missing >= MANY && missing.saturating_mul(10) >= all;
        is_much.then(|| places.finding(RuleId::MissingLookups, amounts))
    }

    pub(super) fn stat_storm(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let places = of_habits(&habits.queries, &habits.names, |place| place.count >= MANY);
        let places = AdvicePlaces::new(places, false);
        let PlaceSum { count, time_ns, .. } = places.sum;
        let amounts =
            vec![Count(count, "query"), Count(places.all, "path"), Ns(time_ns, "in them")];
        (count > 0).then(|| places.finding(RuleId::StatStorm, amounts))
    }

    pub(super) fn opened_unused(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let places = AdvicePlaces::new(of_habits(&habits.unused, &habits.names, |_| true), false);
        let amounts = vec![Count(places.sum.count, "open without a use")];
        (places.sum.count >= MANY).then(|| places.finding(RuleId::OpenedUnused, amounts))
    }

    pub(super) fn overwritten(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let places =
            AdvicePlaces::new(of_habits(&habits.overwritten, &habits.names, |_| true), true);
        let bytes = places.sum.bytes;
        let amounts = vec![Bytes(bytes, "overwritten"), Count(places.sum.count, "write")];
        (bytes >= MUCH).then(|| places.finding(RuleId::Overwritten, amounts))
    }

    pub(super) fn fsync_storm(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let written = |key: &[u8]| self.input.summary.files.get(key).map_or(0, |used| used.written);
        let mut places = of_habits(&habits.syncs, &habits.names, |place| {
            place.count >= MANY && written(&place.key) / place.count < SYNC_BYTES
        });
        for place in &mut places {
            place.bytes = written(&place.key);
        }
        let places = AdvicePlaces::new(places, false);
        let PlaceSum { count, bytes, time_ns } = places.sum;
        let mean = Bytes(bytes / count.max(1), "written for each");
        let amounts = vec![Count(count, "sync"), mean, Ns(time_ns, "in them")];
        (count > 0).then(|| places.finding(RuleId::FsyncStorm, amounts))
    }

    pub(super) fn sync_all(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let places =
            AdvicePlaces::new(of_habits(&habits.all_syncs, &habits.names, |_| true), false);
        let PlaceSum { count, time_ns, .. } = places.sum;
        let amounts = vec![Count(count, "sync of all files"), Ns(time_ns, "in them")];
        (count > 0).then(|| places.finding(RuleId::SyncAll, amounts))
    }

    pub(super) fn sync_twice(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let places = AdvicePlaces::new(of_habits(&habits.twice, &habits.names, |_| true), false);
        let PlaceSum { count, time_ns, .. } = places.sum;
        let amounts = vec![Count(count, "sync"), Ns(time_ns, "in them")];
        (count >= SOME).then(|| places.finding(RuleId::SyncTwice, amounts))
    }

    pub(super) fn shared_file(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let places = of_habits(&habits.overlaps, &habits.names, |place| {
            place.count >= MANY && place.time_ns >= LONG_NS
        });
        let places = AdvicePlaces::new(places, false);
        let PlaceSum { count, time_ns, .. } = places.sum;
        let amounts = vec![Count(count, "write"), Ns(time_ns, "beside another one")];
        (count > 0).then(|| places.finding(RuleId::SharedFile, amounts))
    }

    pub(super) fn direct_unaligned(&self) -> Option<AdviceFinding> {
        let habits = &self.input.facts.habits;
        let unaligned =
            AdvicePlaces::new(of_habits(&habits.unaligned, &habits.names, |_| true), false);
        let refused = AdvicePlaces::new(of_habits(&habits.refused, &habits.names, |_| true), false);
        let counts = [unaligned.sum.count, refused.sum.count];
        let amounts = vec![Count(counts[0], "unaligned access"), Count(counts[1], "refusal")];
        let places = if counts[0] > 0 { unaligned } else { refused };
        (counts[0] >= MANY || counts[1] >= SOME)
            .then(|| places.finding(RuleId::DirectUnaligned, amounts))
    }

    pub(super) fn metadata_heavy(&self) -> Option<AdviceFinding> {
        use CallClass::{
            Attribute, Close, List, Lock, Name, Open, Read, Remove, Rename, Stat, Transfer, Write,
        };
        let mut sums = [PlaceSum::default(); 2];
        for ((what, io), stats) in self.input.summary.calls() {
            let side = match what.class() {
                Attribute | Close | List | Lock | Name | Open | Remove | Rename | Stat => 0,
                Read | Write | Transfer => 1,
                _ => continue,
            };
            if io == IoClass::File
                && let Some(sum) = sums.get_mut(side)
            {
                sum.count += stats.count;
                sum.time_ns = sum.time_ns.saturating_add(stats.time.sum());
            }
        }
        let [names, data] = sums;
        let amounts = vec![
            Count(names.count, "call for names"),
            Ns(names.time_ns, "in them"),
            Count(data.count, "call for data"),
            Ns(data.time_ns, "in those"),
        ];
        let is_heavy = names.time_ns >= data.time_ns.saturating_mul(2);
        let mut finding =
            AdvicePlaces::new(Vec::new(), false).finding(RuleId::MetadataHeavy, amounts);
        finding.count = names.count;
        (names.count >= METADATA_MIN && is_heavy).then_some(finding)
    }
}
