"""
Removes the code's promises one by one and shows the test that notices:

    python3 tests/mutants/mutants.py [--build build/release] [NAME...]

Each mutant is one change in one source. The changed copy is compiled with the build's command and linked before the
rooms, so the linker prefers it. Then the mutant's tests run, and one must fail. The tree and the build stay unchanged,
apart from a build at the start. Exit code 1 if a mutant survives, its change does not apply, or the tests fail without
it.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))
from tests.support.compiled_together import sources_of

SECONDS_A_TEST = 120


@dataclasses.dataclass(frozen=True)
class Mutant:
    name: str
    source: str
    old: str  # occurs in the source exactly once
    new: str
    tests: tuple  # programs of bin/tests


LEDGER, LOG, SESSION = (
    "producer/ledger/slab_ledger.cpp",
    "consumer/session/consumer_session.cpp",
    "consumer/session/consumer_session.cpp",
)
FILLING = "producer/egress/slab_filling.cpp"
GROUPS, RECOVERY = "producer/broker/broker.cpp", "producer/recovery/run_recovery.cpp"
MUTANTS = (
    Mutant(
        "no generation check",
        LEDGER,
        "    if (ticket.generation != current.generation) return ReleaseOutcome::Stale;\n",
        "",
        ("ledger_test", "broker_test"),
    ),
    Mutant(
        "no attempt check",
        LEDGER,
        " || HolderWord::unpack(load_word(*place)).attempt != ticket.attempt",
        "",
        ("ledger_test",),
    ),
    Mutant(
        "no holder record",
        LEDGER,
        "        store_word(place, HolderWord{true, after.attempt, consumer.consumer_index, consumer.session}.pack());\n",
        "",
        ("ledger_test", "broker_test"),
    ),
    Mutant(
        "holder recorded after the state",
        LEDGER,
        """    for (std::uint64_t& place : memory_.entries[slab].holders) {
        if (load_word(place) != 0) continue;
        store_word(place, HolderWord""",
        """    store_word(memory_.entries[slab].word, after.pack());
    for (std::uint64_t& place : memory_.entries[slab].holders) {
        if (load_word(place) != 0) continue;
        store_word(place, HolderWord""",
        ("ledger_table_test",),
    ),
    Mutant(
        "a death counts against all that was held",
        LEDGER,
        "work == WorkWord{slab, holder.attempt, static_cast<std::uint32_t>(current.generation)};",
        "work.slab < slab_count();",
        ("ledger_test", "broker_test"),
    ),
    Mutant(
        "the heartbeat names nothing",
        "consumer/session/read_loan.cpp",
        "    heartbeat.begin(ticket);\n",
        "",
        ("session_test",),
    ),
    Mutant(
        "a heartbeat of an earlier session is believed",
        "producer/broker/liveness_monitor.cpp",
        "load_word(heartbeat.session) == peer.ref.session ? load_word(heartbeat.work) : 0",
        "load_word(heartbeat.work)",
        ("broker_test",),
    ),
    Mutant(
        "releases are not repeated",
        LOG,
        "return first_ < next_ && now >= repeat_at_ ? first_ : next_;",
        "return now < TimePoint{} ? first_ : next_;",
        ("session_test",),
    ),
    Mutant(
        "a late answer is final",
        SESSION,
        "    repeat_hello();\n    send_due();\n",
        "    send_due();\n",
        ("simulation",),
    ),
    Mutant(
        "a half-done lease keeps its attempt",
        LEDGER,
        "            for (const HolderWord& holder : held)\n                if (holder.attempt > found.attempt) store",
        "            for (const HolderWord& holder : held)\n                if (holder.attempt > kMaxAttempt) store",
        ("simulation",),
    ),
    Mutant(
        "repeated releases count again",
        "producer/broker/dispatcher.cpp",
        "            peer->in_doubt = true;\n        } else if (sequence == peer",
        "            on_release(*peer, record);\n        } else if (sequence == peer",
        ("broker_test",),
    ),
    Mutant(
        "a held slab is dropped",
        "producer/broker/spill.cpp",
        " || !ledger_.holders(entry.slab).empty()) continue;",
        ") continue;",
        ("broker_test",),
    ),
    Mutant(
        "slabs are dropped before consumers are served",
        GROUPS,
        "    for (const auto& group : groups_) group->hand_out();\n",
        "    intake_.drop_for_egress();\n    for (const auto& group : groups_) group->hand_out();\n",
        ("broker_test",),
    ),
    Mutant(
        "a drop is not counted for a successor",
        "producer/broker/spill.cpp",
        "    count_step(options_.progress, CountedStep::Drop, published, ledger_);\n",
        "",
        ("broker_test",),
    ),
    Mutant(
        "another run's releases count",
        "producer/broker/dispatcher.cpp",
        "message.run != options_.run_nonce",
        "message.run == 0",
        ("broker_test",),
    ),
    Mutant(
        "another run's words count",
        "producer/broker/admission.cpp",
        """        if (message.run != options_.run_nonce) {
            ++refused_[""",
        """        if (message.run == 0) {
            ++refused_[""",
        ("broker_test",),
    ),
    Mutant(
        "another run's producer is believed",
        SESSION,
        "parsed.run != options_.run_nonce && ",
        "parsed.run == 0 && ",
        ("session_test",),
    ),
    Mutant(
        "each run has the sockets of the one before",
        "common/transport/endpoint.cpp",
        "(endpoint.names.nonce + endpoint.epoch)",
        "(endpoint.epoch)",
        ("transport_test",),
    ),
    Mutant(
        "a session is continued by its process",
        "producer/broker/peers.cpp",
        "peer->away && !peer->gone && peer->token == token",
        "peer->away && !peer->gone && token != 0",
        ("broker_test",),
    ),
    Mutant(
        "an error keeps what the consumer holds",
        "consumer/session/consumer_loop.cpp",
        "        session_->abandon();\n",
        "",
        ("session_test",),
    ),
    Mutant(
        "what is given back is still mapped",
        "consumer/session/consumer_loop.cpp",
        "        mappings_->unmap_slabs();\n",
        "",
        ("session_test",),
    ),
    Mutant(
        "anyone releases in another's name",
        "producer/broker/dispatcher.cpp",
        "inbound.credentials.pid != peer->credentials.pid || inbound.credentials.uid != peer->credentials.uid",
        "inbound.bytes.empty()",
        ("broker_test",),
    ),
    Mutant(
        "forked children keep slabs",
        "common/shm/shared_region.cpp",
        '    advise(region, MADV_DONTFORK, "MADV_DONTFORK", name);\n',
        "",
        ("shm_test",),
    ),
    Mutant(
        "slabs are in core dumps",
        "common/shm/shared_region.cpp",
        '    advise(region, MADV_DONTDUMP, "MADV_DONTDUMP", name);\n',
        "",
        ("shm_test",),
    ),
    Mutant(
        "memory is free when a lease runs out",
        LEDGER,
        """    failpoint("ledger.expire");
    move_to(slab, SlabState::Leased, SlabState::Ready);""",
        """    for (std::uint64_t& place : memory_.entries[slab].holders) store_word(place, 0);
    free_slab(slab);""",
        ("ledger_test", "broker_test"),
    ),
    Mutant(
        "only the last holder completes",
        LEDGER,
        "    if (kind == ReleaseKind::Completed &&",
        "    if (kind == ReleaseKind::Completed && ticket.attempt == current.attempt &&",
        ("ledger_test", "broker_test"),
    ),
    Mutant(
        "a pause of everything runs leases out",
        "producer/broker/liveness_monitor.cpp",
        "    leave_out_pause(now);\n",
        "",
        ("broker_test",),
    ),
    Mutant(
        "any work is let in",
        "producer/broker/admission.cpp",
        " && hello.work != options_.work",
        " && hello.work == options_.run_nonce",
        ("broker_test",),
    ),
    Mutant(
        "memory is free while held",
        LEDGER,
        "        if (!has_holders(ticket.slab)) free_slab(ticket.slab);",
        "        for (std::uint64_t& other : memory_.entries[ticket.slab].holders) store_word(other, 0);\n        free_slab(ticket.slab);",
        ("ledger_test", "broker_test"),
    ),
    Mutant(
        "a killed one is free before it is dead",
        "producer/broker/liveness_monitor.cpp",
        "        ++totals_.stalled_killed;\n",
        "        ++totals_.stalled_killed;\n        reap(peer);\n",
        ("broker_test",),
    ),
    Mutant(
        "no word of the adopted ledger is checked",
        LEDGER,
        "    check_ledger_words(memory.consumers, memory.entries);\n",
        "",
        ("ledger_test",),
    ),
    Mutant(
        "a halt sends consumers away",
        "producer/egress/run_lifecycle.cpp",
        "        if (mode == StopMode::Abandon) run_.dismiss_consumers();\n",
        "        run_.dismiss_consumers();\n",
        ("egress_test",),
    ),
    Mutant(
        "a run that does not add up is gone on with",
        "producer/recovery/run_recovery.cpp",
        "        require_conserved(predecessors_.back());\n",
        "",
        ("recovery_test",),
    ),
    Mutant(
        "a new run takes an unfinished run's folder",
        "producer/runner/checkpoint/run_checkpoint.cpp",
        "found && found->run_id != config.run_id) fail_other_work(",
        "found && found->ended) fail_other_work(",
        ("checkpoint_test",),
    ),
    Mutant(
        "a program adds to a launcher's run",
        "consumer/processors/results/own_run.cpp",
        "if (previous && !previous->of_own_program)",
        "if (previous && previous->run_id.empty())",
        ("processors_test",),
    ),
    Mutant(
        "connections without limit",
        "common/transport/peer_connections.cpp",
        "if (static_cast<std::size_t>(of_this_process) < kMostOfOneProcess && pids_.size() < most_) {",
        "if (of_this_process >= 0) {",
        ("transport_test",),
    ),
    Mutant(
        "a slab is published before its copies",
        FILLING,
        "    events_.copied->wait();\n",
        "",
        ("gpu_failures_test",),
    ),
    Mutant(
        "an abandoned slab does not wait for its copies",
        FILLING,
        "        stream_.synchronize();\n",
        "",
        ("gpu_failures_test",),
    ),
    Mutant(
        "a failed event ends the wait for copies",
        "producer/device/cuda_stream.cpp",
        "    check(driver::api().stream_synchronize(stream_), ",
        "    check(driver::kSuccess, ",
        ("gpu_failures_test",),
    ),
    Mutant(
        "the driver's errors are ignored",
        "producer/device/context_guard.cpp",
        "    if (result == driver::kSuccess) [[likely]]\n",
        "    if (result >= driver::kSuccess) [[likely]]\n",
        ("gpu_failures_test",),
    ),
    Mutant(
        "a failed copy ends the run",
        FILLING,
        "        if (!failed()) exchange_->finish();\n",
        "        exchange_->finish();\n",
        ("egress_test",),
    ),
    Mutant(
        "a failed copy stops the run before its error is known",
        "producer/egress/egress_stream.cpp",
        "        completion_.fail(std::current_exception());",
        "        stop();\n        completion_.fail(std::current_exception());",
        ("egress_test",),
    ),
    Mutant(
        "a stream begins where ISA-L begins it",
        "consumer/processors/pictures/fast_deflate.cpp",
        '    expect(isal_deflate_set_dict(&stream, &first, 1) == COMP_OK, "ISA-L takes a dictionary before the stream");\n',
        "",
        ("processors_test",),
    ),
    Mutant(
        "free in one group is enough",
        GROUPS,
        " && free_in_others(one, fewest)",
        "",
        ("broker_test",),
    ),
    Mutant(
        "only the first group gets a slab",
        GROUPS,
        "        for (const auto& group : std::span(groups_).first(groups_.size() - 1)) group->take(published);\n"
        "        groups_.back()->take(std::move(published));\n",
        "        groups_.front()->take(published);\n",
        ("broker_test",),
    ),
    Mutant(
        "only the first group frees an unfilled slab",
        GROUPS,
        "news.abandoned)\n        for (const auto& group : groups_) group->ledger()",
        "news.abandoned)\n        groups_.front()->ledger()",
        ("broker_test",),
    ),
    Mutant(
        "each group reports a completion",
        GROUPS,
        "    if (fate.open > 0 || fate.lost) return false;\n",
        "    if (fate.lost) return false;\n",
        ("broker_test",),
    ),
    Mutant(
        "a lost slab is completed",
        GROUPS,
        "    if (fate.open > 0 || fate.lost) return false;\n",
        "    if (fate.open > 0) return false;\n",
        ("broker_test",),
    ),
    Mutant(
        "a slab is lost once per group",
        GROUPS,
        "    if (!first) return false;\n",
        "    static_cast<void>(first);\n",
        ("broker_test",),
    ),
    Mutant(
        "a lost slab is not marked",
        GROUPS,
        "    mark_lost(published);\n",
        "",
        ("broker_test",),
    ),
    Mutant(
        "marks of lost slabs are not read",
        GROUPS,
        "            fate.lost = lost;\n",
        "",
        ("recovery_test",),
    ),
    Mutant(
        "optional groups are waited for",
        GROUPS,
        "    if (options.policy.optional) return;\n",
        "",
        ("broker_test",),
    ),
    Mutant(
        "an optional group holds the pool",
        GROUPS,
        "(drop_oldest(is_optional) || (exchange_",
        "((false && drop_oldest(is_optional)) || (exchange_",
        ("broker_test",),
    ),
    Mutant(
        "a required group drops for an egress that does not wait",
        GROUPS,
        "(exchange_.wants_oldest_dropped() && drop_oldest(any))",
        "drop_oldest(any)",
        ("broker_test",),
    ),
    Mutant(
        "a group drops newer slabs than another one",
        GROUPS,
        "items_through >= its->published(oldest).items_through)",
        "items_through < its->published(oldest).items_through)",
        ("broker_test",),
    ),
    Mutant(
        "a dropped slab is completed",
        "producer/broker/spill.cpp",
        "    if (options_.before_loss) options_.before_loss(published, CountedStep::Drop);\n",
        "",
        ("broker_test",),
    ),
    Mutant(
        "a lost slab is listed as dropped",
        "producer/broker/spill.cpp",
        "    if (options_.on_dropped && !ledger_.is_lost(slab))\n",
        "    if (options_.on_dropped)\n",
        ("broker_test",),
    ),
    Mutant(
        "a dropped slab counts as a dead letter",
        GROUPS,
        "(step == CountedStep::Drop ? totals_.dropped : totals_.dead_lettered) +=",
        "totals_.dead_lettered +=",
        ("broker_test",),
    ),
    Mutant(
        "a run waits for an optional group",
        GROUPS,
        "            if (group->is_optional()) group->hurry();\n",
        "            static_cast<void>(group);\n",
        ("broker_test",),
    ),
    Mutant(
        "a drop takes what required groups have",
        GROUPS,
        "SlabState::Free || (loses(*group) && group->may_drop(slab));",
        "SlabState::Free || group->ledger().slab_count() > slab;",
        ("broker_test",),
    ),
    Mutant(
        "a drop in one group alone",
        GROUPS,
        "if (loses(*group) && group->may_drop(oldest)) group",
        "if (group.get() == its) group",
        ("broker_test",),
    ),
    Mutant(
        "an optional group's held slab is dropped",
        "producer/broker/group_broker.cpp",
        "SlabState::Ready && ledger_.holders(slab).empty();",
        "SlabState::Ready;",
        ("broker_test",),
    ),
    Mutant(
        "a shortage of groups together is not explained",
        "producer/broker/shortage_report.cpp",
        " && !short_together) return;",
        " && (!short_together || true)) return;",
        ("broker_test",),
    ),
    Mutant(
        "messages of the first group alone end the wait",
        "producer/broker/broker_thread.cpp",
        "            if (!(*port)->prepare_wait(wait_fds_)) patience = {};\n",
        "            static_cast<void>(port);\n",
        ("broker_test",),
    ),
    Mutant(
        "a half-done publication is not completed",
        RECOVERY,
        "    count_last_publication(numbers);\n",
        "",
        ("recovery_test",),
    ),
    Mutant(
        "a completed publication forgets skipped items",
        RECOVERY,
        "        slab.skipped = static_cast",
        "        slab.skipped = 0 * static_cast",
        ("recovery_test",),
    ),
    Mutant(
        "groups keep different generations",
        RECOVERY,
        "if (generation(ledger) < latest) ledger",
        "if (generation(ledger) > latest) ledger",
        ("recovery_test",),
    ),
    Mutant(
        "different generations in use are accepted",
        RECOVERY,
        "generation(in_use) + (is_free(ledger) ? 1 : 0))",
        "generation(ledger) + 1 - (is_free(ledger) ? 1 : 1))",
        ("recovery_test",),
    ),
    Mutant(
        "groups keep different epochs",
        RECOVERY,
        "    for (RunMemory& memory : memory_) memory.raise_epoch(latest);\n",
        "    static_cast<void>(latest);\n",
        ("recovery_test",),
    ),
    Mutant(
        "an unmarked loss counts as completed",
        RECOVERY,
        "    mark_last_losses();\n",
        "",
        ("recovery_test",),
    ),
    Mutant(
        "an unmarked drop counts as completed",
        RECOVERY,
        "step.kind == CountedStep::DeadLetter || step.kind == CountedStep::Drop;",
        "step.kind == CountedStep::DeadLetter;",
        ("recovery_test",),
    ),
    Mutant(
        "a group spills what another one holds",
        "producer/broker/spill.cpp",
        "oldest_waiting(options_.others.can_be_freed)",
        "oldest_waiting()",
        ("broker_test",),
    ),
    Mutant(
        "a group fills a slab that another one holds",
        "producer/broker/spill.cpp",
        " && (!among_groups() || options_.others.have_it_free(one));",
        ";",
        ("broker_test",),
    ),
    Mutant(
        "other groups keep their generation of a slab that was read back",
        "producer/broker/spill.cpp",
        "    if (among_groups()) options_.others.pass_over(outcome.slab);\n",
        "",
        ("broker_test", "recovery_test"),
    ),
    Mutant(
        "each slab waits before it is spilled",
        "producer/broker/spill.cpp",
        "        if (!among_groups() || now - short_at_ >= kPatience) short_since_.reset();\n",
        "        short_since_.reset();\n",
        ("broker_test",),
    ),
    Mutant(
        "a lost slab loses its mark on the way to the disk",
        "producer/broker/spill.cpp",
        "    if (ledger_.is_lost(outcome.slab)) SpillStore::mark_lost(spilled_.back().file);\n",
        "",
        ("broker_test",),
    ),
    Mutant(
        "a lost slab loses its mark on the way back",
        "producer/broker/spill.cpp",
        "    if (file.lost) ledger_.mark_lost(outcome.slab);\n",
        "",
        ("broker_test",),
    ),
    Mutant(
        "a file of a lost slab is not marked",
        "producer/broker/group_broker.cpp",
        "    spill_.mark_lost(lost.filling);\n",
        "",
        ("broker_test", "recovery_test"),
    ),
    Mutant(
        "a file's mark is not read",
        "producer/broker/spill_store.cpp",
        "    file.lost = text.starts_with(kLostPrefix);\n    if (!file.lost && !text",
        "    if (!text.starts_with(kLostPrefix) && !text",
        ("recovery_test",),
    ),
    Mutant(
        "spilled slabs of a group are done after a recovery",
        RECOVERY,
        "        for (const SpilledSlab& slab : group.spilled) note(slab.published, slab.file.lost);\n",
        "",
        ("recovery_test",),
    ),
    Mutant(
        "a last loss is not marked in a file",
        RECOVERY,
        "                if (slab.published.filling == step.items_through) SpillStore::mark_lost(slab.file);\n",
        "                static_cast<void>(slab);\n",
        ("recovery_test",),
    ),
    Mutant(
        "a last loss is marked by its slab's number",
        RECOVERY,
        "                if (slab.filling == step.items_through) ledgers_[other].mark_lost(slab.slab);\n",
        "                if (slab.slab == step.slab) ledgers_[other].mark_lost(slab.slab);\n",
        ("recovery_test",),
    ),
    Mutant(
        "a recovery counts the dead letters of one group",
        RECOVERY,
        "        dead_letters += group.totals.first_dead_letters;\n",
        "        dead_letters = group.totals.first_dead_letters;\n",
        ("recovery_test",),
    ),
    Mutant(
        "a recovery counts the drops of one group",
        RECOVERY,
        "        dropped += group.totals.first_dropped;\n",
        "        dropped = group.totals.first_dropped;\n",
        ("recovery_test",),
    ),
    Mutant(
        "a loss is the first in each group",
        "producer/broker/run_records.cpp",
        "if (!was_lost) next.first_dropped",
        "if (!was_lost || true) next.first_dropped",
        ("recovery_test",),
    ),
    Mutant(
        "the rest of a list, less than a part, is left out",
        "common/base/in_parts.cpp",
        "count / of_a_part + (count % of_a_part == 0 ? 0 : 1)",
        "std::max<std::uint64_t>(1, count / of_a_part)",
        ("base_test",),
    ),
    Mutant(
        "an error in a part is forgotten",
        "common/base/in_parts.cpp",
        "    if (failure) std::rethrow_exception(failure);\n",
        "",
        ("base_test",),
    ),
    Mutant(
        "parts of a list cut lines",
        "common/app/images/picture_list.cpp",
        "std::min(read.find(reading.end, offset - 1), whole - 1) + 1",
        "offset",
        ("images_tests",),
    ),
    Mutant(
        "a shard reads other bytes than those of the job's list",
        "common/app/images/picture_list.cpp",
        "hash_of_text(text) != part->hash ||",
        "",
        ("images_tests",),
    ),
    Mutant(
        "a shard does not read its neighbours' pictures in its batches",
        "common/app/images/picture_list.cpp",
        "std::max<std::uint64_t>(share.batch, 1)",
        "1",
        ("images_tests",),
    ),
    Mutant(
        "a shard uses the damaged items file of its job",
        "producer/runner/checkpoint/run_checkpoint.cpp",
        "found ? found->items() == source.items() && hashes_in(folder_, *found).has_value() : is_linked",
        "is_linked || (found && found->items() == source.items() && hashes_in(folder_, *found).has_value())",
        ("checkpoint_test",),
    ),
    Mutant(
        "an index of an older list is used",
        "common/app/images/list_index.cpp",
        "index->list_changed_ns != header.facts.list_changed_ns",
        "false",
        ("images_tests",),
    ),
    Mutant(
        "a list whose keys depend on each other has an index",
        "common/app/images/item_keys.cpp",
        "        are_independent_ = false;\n    }\n}\n\n// Numbers a key if",
        "    }\n}\n\n// Numbers a key if",
        ("images_tests",),
    ),
    Mutant(
        "a range of hashes is not sorted",
        "common/app/images/item_keys.cpp",
        "begin = range == 0 ? 0 : ends[range - 1].load();",
        "begin = ends[range].load();",
        ("images_tests",),
    ),
)


class Build:
    """The commands of a configured build folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self._commands = {
            source: entry
            for entry in json.loads((self.folder / "compile_commands.json").read_text())
            if " -o tests/fuzz/" not in entry["command"]
            for source in sources_of(entry["file"])
        }

    def bring_up_to_date(self, programs):
        subprocess.run(
            ["ninja", "-C", self.folder, *sorted({f"bin/tests/{name}" for name in programs})],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def compile(self, source, text, folder):
        """
        Compiles the changed text like the source, together with its unity source's others, which may inline it. Returns
        the object.
        """
        changed, compiled = folder / pathlib.Path(source).name, folder / "changed.o"
        changed.write_text(text)
        entry = self._commands[ROOT / source]
        together = pathlib.Path(entry["file"])
        if together.parent.name == "Unity":
            unity = together.read_text().replace(f'"{ROOT / source}"', f'"{changed}"')
            changed = folder / together.name
            changed.write_text(unity)
        words = shlex.split(entry["command"])
        words[words.index("-o") + 1] = str(compiled)
        words[words.index("-c") + 1] = str(changed)
        done = subprocess.run(words, cwd=entry["directory"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"mutants.py: the changed {source} does not compile:\n{done.stderr}")
        return compiled

    def link(self, program, in_front, folder):
        """Links the test program with this object before the rooms."""
        linked = folder / program
        commands = (
            subprocess.run(
                ["ninja", "-C", self.folder, "-t", "commands", "-s", f"bin/tests/{program}"],
                capture_output=True,
                text=True,
                check=True,
            )
            .stdout.strip()
            .splitlines()
        )
        command = re.sub(r"(\S+\.o )", lambda first: f"{shlex.quote(str(in_front))} {first[1]}", commands[-1], count=1)
        # The original object may contain other sources of its room, which are needed. The first definition of a common
        # symbol wins.
        command = command.replace(f"-o bin/tests/{program}", f"-Wl,-z,muldefs -o {shlex.quote(str(linked))}", 1)
        subprocess.run(command, shell=True, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        return linked


def last_begun(output):
    began = re.findall(r"\[ RUN +\] (\S+)", output)
    return began[-1] if began else "before any case"


def failed_case(program, folder):
    """The name of the first failing test case; empty if all pass."""
    try:
        done = subprocess.run(
            [program], capture_output=True, text=True, errors="replace", timeout=SECONDS_A_TEST, cwd=folder, check=False
        )
    except subprocess.TimeoutExpired as hung:
        return f"{last_begun((hung.stdout or b'').decode(errors='replace'))} (no end)"
    if done.returncode == 0:
        return ""
    failed = re.search(r"\[  FAILED  \] ([\w./]+)", done.stdout)
    return failed[1] if failed else f"{last_begun(done.stdout)} (ended)"


def changed(mutant):
    """The text of the mutant's source. Errors: SystemExit if the change does not apply."""
    text = (ROOT / mutant.source).read_text()
    if text.count(mutant.old) != 1:
        raise SystemExit(
            f"mutants.py: '{mutant.name}' does not apply: its text occurs {text.count(mutant.old)} times in {mutant.source}"
        )
    return text.replace(mutant.old, mutant.new)


def check(mutant, build):
    """The test that notices the mutant, or an empty text."""
    with tempfile.TemporaryDirectory(prefix="offramp-mutant-") as folder:
        folder = pathlib.Path(folder)
        compiled = build.compile(mutant.source, changed(mutant), folder)
        for program in mutant.tests:
            if case := failed_case(build.link(program, compiled, folder), folder):
                return f"{program}: {case}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="all, when none is named")
    parser.add_argument("--build", default=ROOT / "build/release", help="a configured build folder")
    parser.add_argument(
        "--as-built", action="store_true", help="do not build first: a test of a build that is up to date"
    )
    parser.add_argument("--apply", action="store_true", help="only check that each change applies to its source")
    options = parser.parse_args()
    wanted = [mutant for mutant in MUTANTS if not options.names or mutant.name in options.names]
    if options.apply:
        print(f"{len(list(map(changed, wanted)))} mutants apply")
        return 0
    build, began, survivors = Build(options.build), time.monotonic(), 0
    programs = sorted({program for mutant in wanted for program in mutant.tests})
    if not options.as_built:
        build.bring_up_to_date(programs)
    for program in programs:
        with tempfile.TemporaryDirectory(prefix="offramp-mutant-") as folder:
            if case := failed_case(build.folder / "bin/tests" / program, folder):
                raise SystemExit(f"mutants.py: {program} fails without any mutant: {case}")
    print(f"| {'mutant':42} | caught by |\n|{'-' * 44}|---|")
    for mutant in wanted:
        caught = check(mutant, build)
        survivors += not caught
        print(f"| {mutant.name:42} | {caught or 'SURVIVED'} |", flush=True)
    print(f"{len(wanted)} mutants, {survivors} survived, {time.monotonic() - began:.0f} s")
    return 1 if survivors or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())
