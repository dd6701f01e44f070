/* Lists the transitions of ledger.pml for every reachable slab: one slab, two consumers, and the producer's death after any store.
 * Its search, compiled with -DPRINTF, prints a line for each event in each state, which check.py turns into transitions.txt:
 *
 *   ROW state attempt holder0 holder1 failures | event consumer attempt kind | stores, in their order | END or DIED */

#define SLABS 1
#define CONSUMERS 2
#define MAX_HOLDERS 8
#define SCRATCH hidden

#define ACQUIRE 0
#define ABANDON 1
#define PUBLISH 2
#define LEASE 3
#define TAKE_BACK 4
#define EXPIRE 5
#define RELEASE 6
#define REVOKE 7
#define DEAD_LETTERS 8
#define DISCARD 9
#define ADOPT 10
#define VACATE 11

bool up = true;
byte die_at;

inline may_die() {
    do
    :: die_at < 5 -> die_at++
    :: break
    od
}
inline stored() {
    if
    :: die_at == 1 -> die_at = 0; up = false
    :: die_at > 1 -> die_at--
    :: else
    fi
}
#define STORED_STATE(s) printf(" s %d %d %d", entry[s].state, entry[s].attempt, entry[s].generation); stored()
#define STORED_HOLDER(s, c) printf(" h %d %d", c, entry[s].holder[c]); stored()
#define STORED_FAILURES(s) printf(" c %d", entry[s].failures); stored()
inline note_completed(s) { skip }
inline note_completed_nothing(s, finished) { skip }
inline note_freed(s) { skip }

#include "ledger.pml"

/* Beyond these limits only the numbers grow. */
#define IS_LISTED (entry[0].attempt + entry[0].failures <= 2)
#define MAY(state_before) (up && IS_LISTED && entry[0].state == state_before)

inline row(event, consumer, attempt_of_ticket, kind) {
    printf("\nROW %d %d %d %d %d ", entry[0].state, entry[0].attempt, entry[0].holder[0], entry[0].holder[1], entry[0].failures);
    printf("| %d %d %d %d |", event, consumer, attempt_of_ticket, kind)
}
inline end_row() {
    if
    :: up -> printf(" | END\n")
    :: else -> printf(" | DIED\n")
    fi;
    die_at = 0; entry[0].generation = 1
}

active proctype Producer() {
    entry[0].generation = 1;
end:
    do
    :: atomic { MAY(FREE) -> may_die(); d_step { row(ACQUIRE, 0, 0, 0); ledger_acquire(0); end_row() } }
    :: atomic { MAY(FILLING) -> may_die(); d_step { row(ABANDON, 0, 0, 0); ledger_abandon(0); end_row() } }
    :: atomic { MAY(FILLING) -> may_die(); d_step { row(PUBLISH, 0, 0, 0); ledger_publish(0); end_row() } }
    :: atomic { MAY(LEASED) -> may_die(); d_step { row(EXPIRE, 0, 0, 0); ledger_expire(0); end_row() } }
    :: atomic { MAY(READY) -> may_die(); d_step { row(DEAD_LETTERS, 0, 0, 0); ledger_dead_letter(0); end_row() } }
    :: atomic { MAY(DEAD_LETTERED) -> may_die(); d_step { row(DISCARD, 0, 0, 0); ledger_discard(0); end_row() } }
    :: atomic { MAY(READY) && HOLDERS(0) == 0 -> may_die(); d_step { row(VACATE, 0, 0, 0); ledger_vacate(0); end_row() } }
    :: atomic { !up && IS_LISTED -> up = true; may_die(); d_step { row(ADOPT, 0, 0, 0); ledger_adopt(0); end_row() } }
    od
}

active [2] proctype Peer() {
    byte attempt, kind;
end:
    do
    :: atomic { up && IS_LISTED && CAN_LEASE(0, _pid - 1) ->
        may_die(); d_step { row(LEASE, _pid - 1, 0, 0); ledger_lease(0, _pid - 1); end_row() } }
    :: atomic { up && IS_LISTED && entry[0].holder[_pid - 1] != 0 ->
        may_die(); d_step { row(TAKE_BACK, _pid - 1, 0, 0); ledger_take_back(0, _pid - 1); end_row() } }
    :: atomic { up && IS_LISTED ->
        may_die();
        if
        :: attempt = 1
        :: attempt = 2
        :: attempt = 3
        fi;
        if
        :: kind = COMPLETED
        :: kind = RETURNED
        :: kind = FAILED
        fi;
        d_step { row(RELEASE, _pid - 1, attempt, kind); ledger_release(0, _pid - 1, 1, attempt, kind); end_row(); attempt = 0; kind = 0 } }
    :: atomic { up && IS_LISTED ->
        may_die(); d_step { row(RELEASE, _pid - 1, 1, COMPLETED); ledger_release(0, _pid - 1, 9, 1, COMPLETED); end_row() } }
    :: atomic { up && IS_LISTED -> may_die(); d_step { row(REVOKE, _pid - 1, 0, 0); ledger_revoke(0, _pid - 1, false); end_row() } }
    :: atomic { up && IS_LISTED && entry[0].holder[_pid - 1] != 0 ->
        may_die(); d_step { row(REVOKE, _pid - 1, 0, 1); ledger_revoke(0, _pid - 1, true); end_row() } }
    od
}
