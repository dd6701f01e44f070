/* Ledger, broker and consumers, and all faults between them. model.md here lists what is left out, and why.
 *
 * An action is one step. Between two actions anything may happen: a message waits, a process is slow, a lease expires. Each
 * fault (a death, a lost message, ...) decrements `faults`. So every history ends, and the judge checks its end. */

#ifndef SLABS
#define SLABS 2
#endif
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef MAX_HOLDERS
#define MAX_HOLDERS 2
#endif
#ifndef WINDOW
#define WINDOW 2          /* slabs that a consumer may hold */
#endif
#ifndef BATCHES
#define BATCHES 3         /* more than slabs, so that at least one is filled twice */
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#define MAX_FAILURES 2
#ifndef LOG_ROOM
#define LOG_ROOM 2        /* limit of a consumer's unanswered releases */
#endif
#ifndef SCRATCH
#define SCRATCH hidden    /* not part of a state; the breadth-first search needs it empty, with larger states */
#endif
#define WORK_ROOM (SLABS + 1)
#define RELEASE_ROOM (LOG_ROOM + 1)

/* --- the outsider's notes: no process in the model acts on them --- */

bool wanted[SLABS];       /* the current filling was published, and neither completed nor dead-lettered */
bool committed[SLABS];    /* a consumer has committed its results */
bool slabs_differ, consumers_differ;   /* not yet: slab 0 is filled first, and consumer 0 acts first */

/* Cleared and asserted where the promise is broken. */
bool memory_is_reused_only_without_readers = true;
bool no_batch_is_lost = true;
bool no_filling_is_completed_twice = true;
bool no_slab_leaks = true;
bool finished_work_counts = true;
bool judged;

/* ONLY=... judges one promise: each known-bad variant names the promise that it breaks. */
#define MEMORY 1
#define LOST 2
#define TWICE 4
#define LEAKS 8
#define COUNTS 16
#ifndef ONLY
#define ONLY (MEMORY | LOST | TWICE | LEAKS | COUNTS)
#endif

inline promise_memory(kept) {
    memory_is_reused_only_without_readers = (kept) || !(ONLY & MEMORY);
    assert(memory_is_reused_only_without_readers)
}
inline promise_not_lost(kept) {
    no_batch_is_lost = (kept) || !(ONLY & LOST);
    assert(no_batch_is_lost)
}
inline promise_not_twice(kept) {
    no_filling_is_completed_twice = (kept) || !(ONLY & TWICE);
    assert(no_filling_is_completed_twice)
}
inline promise_no_leak(kept) {
    no_slab_leaks = (kept) || !(ONLY & LEAKS);
    assert(no_slab_leaks)
}

inline promise_counts(kept) {
    finished_work_counts = (kept) || !(ONLY & COUNTS);
    assert(finished_work_counts)
}

inline note_completed(s) {
    promise_not_twice(wanted[s]);
    promise_not_lost(committed[s]);
    wanted[s] = false; committed[s] = false
}
/* Otherwise a step longer than a lease could be taken from each consumer in turn, forever. */
inline note_completed_nothing(s, finished) { promise_counts(!finished || !wanted[s]) }
inline note_freed(s) { promise_not_lost(!wanted[s]) }

/* --- state that outlives the producer: the ledger and the consumers' heartbeat records --- */

byte faults = FAULTS;
byte left = BATCHES;      /* unpublished batches. A new producer finds the high-water mark in ledger and headers */
bool up = true;           /* the producer lives */
byte die_at;              /* it dies right after this store of its action; 0: it lives */

/* Before an action that stores: whether and where the producer dies in it. */
inline may_die_within(stores) {
    do
    :: faults > 0 && die_at < stores -> die_at++
    :: break
    od
}
inline stored() {
    if
    :: die_at == 1 -> die_at = 0; faults--; up = false; printf("the producer dies\n")
    :: die_at > 1 -> die_at--
    :: else
    fi
}
#define STORED_STATE(s) \
    printf("    ledger: slab %d is %e, attempt %d, generation %d\n", s, NAME(entry[s].state), entry[s].attempt, entry[s].generation); \
    stored()
#define STORED_HOLDER(s, c) printf("    ledger: slab %d, consumer %d holds attempt %d\n", s, c, entry[s].holder[c]); stored()
#define STORED_FAILURES(s) printf("    ledger: slab %d has %d failures\n", s, entry[s].failures); stored()

mtype = { dead_lettered, retired, leased, ready, filling, free };
#define NAME(state) (state + 1)

#include "ledger.pml"

bool place[CONSUMERS];    /* its session is in the ledger's table */

typedef Heartbeat { bool busy; byte slab; byte generation; byte attempt };
Heartbeat heartbeat[CONSUMERS];     /* the ticket of its work; outlives it */

/* --- state that dies with the producer: its connections --- */

bool peer[CONSUMERS];     /* connected to the live producer */
byte next[CONSUMERS];     /* the number of its next delivery */
byte seen[CONSUMERS];     /* its releases, through this number */
bool owed[CONSUMERS];     /* an acknowledgement */

/* --- the channels --- */

chan work[CONSUMERS] = [WORK_ROOM] of { byte, byte, byte, byte };                /* number, slab, generation, attempt */
chan releases[CONSUMERS] = [RELEASE_ROOM] of { byte, byte, byte, byte, byte };   /* number, slab, generation, attempt, kind */
chan acks[CONSUMERS] = [1] of { byte };                                          /* through this number */

/* --- state that dies with a consumer --- */

bool alive[CONSUMERS];
bool leaving[CONSUMERS];    /* asked to leave: takes no more slabs, returns unbegun ones */
typedef Hand { byte generation[SLABS]; byte attempt[SLABS] };
Hand at_hand[CONSUMERS];    /* its tickets by slab; attempt 0: none */
byte last[CONSUMERS];       /* number of the last delivery that it saw */
byte first[CONSUMERS];      /* number of the oldest release in its log */
chan log[CONSUMERS] = [LOG_ROOM] of { byte, byte, byte, byte };   /* unacknowledged: slab, generation, attempt, kind */

#define HOLDS(s, c) (entry[s].holder[c] != 0)
#define IS_BUSY(s) (entry[s].state != FREE && entry[s].state != RETIRED)
#if SLABS == 2
#define HELD(c) (HOLDS(0, c) + HOLDS(1, c))
#define IN_FLIGHT (IS_BUSY(0) || IS_BUSY(1))
#define HAS_NOTHING(c) (at_hand[c].attempt[0] + at_hand[c].attempt[1] == 0)
#else
#define HELD(c) (HOLDS(0, c) + HOLDS(1, c) + HOLDS(2, c))
#define IN_FLIGHT (IS_BUSY(0) || IS_BUSY(1) || IS_BUSY(2))
#define HAS_NOTHING(c) (at_hand[c].attempt[0] + at_hand[c].attempt[1] + at_hand[c].attempt[2] == 0)
#endif
#if CONSUMERS == 2
#define MAY_BE_READ(s) (MAY_BE_READ_BY(0, s) || MAY_BE_READ_BY(1, s))
#else
#define MAY_BE_READ(s) (MAY_BE_READ_BY(0, s) || MAY_BE_READ_BY(1, s) || MAY_BE_READ_BY(2, s))
#endif
#define MAY_BE_READ_BY(c, s) (at_hand[c].attempt[s] != 0)
#define RUN_IS_OVER (left == 0 && !IN_FLIGHT)
#ifdef PUSH_PULL
#define HAS_CREDIT(c) (true)
#else
#define HAS_CREDIT(c) (HELD(c) < WINDOW)
#endif
#define IS_MET(c) (c == 0 || consumers_differ)
#define MAY_GET(s, c) (IS_MET(c) && up && peer[c] && !leaving[c] && CAN_LEASE(s, c) && entry[s].failures < MAX_FAILURES && HAS_CREDIT(c))
#define WORKS_ON(s, c) (heartbeat[c].busy && heartbeat[c].slab == s)
/* A reconnecting consumer names its holds: at hand, or released without an answer. */
#define HAS_AT_HAND(s, c) (at_hand[c].generation[s] == entry[s].generation && at_hand[c].attempt[s] == entry[s].holder[c])
#define HAS_RELEASED(s, c) (log[c] ?? [eval(s), eval(entry[s].generation), eval(entry[s].holder[c]), _])

SCRATCH byte n, o, g, a, k, i;   /* scratch, within one step */

/* No ticket or release of the slab exists, so its generations may restart, for the same reason as numbers below. */
#define IS_UNMENTIONED_BY(s, c) \
    (at_hand[c].attempt[s] == 0 && !(work[c] ?? [_, eval(s), _, _]) && !(releases[c] ?? [_, eval(s), _, _, _]) && \
     !(log[c] ?? [eval(s), _, _, _]))
#if CONSUMERS == 2
#define IS_UNMENTIONED(s) (IS_UNMENTIONED_BY(s, 0) && IS_UNMENTIONED_BY(s, 1))
#else
#define IS_UNMENTIONED(s) (IS_UNMENTIONED_BY(s, 0) && IS_UNMENTIONED_BY(s, 1) && IS_UNMENTIONED_BY(s, 2))
#endif

/* Numbers are only compared, so they may restart when no message is in flight. This merges histories that differ in nothing
 * else. */
inline number_anew(c) {
    if
    :: len(work[c]) == 0 && next[c] == last[c] + 1 -> next[c] = 1; last[c] = 0
    :: else
    fi;
    if
    :: len(releases[c]) + len(acks[c]) + len(log[c]) == 0 && !owed[c] -> first[c] = 1; seen[c] = 0
    :: else
    fi
}
/* A connection ends with its messages: messages of another connection change nothing. */
inline cut(c) {
    do
    :: len(work[c]) > 0 -> work[c] ? _, _, _, _
    :: len(work[c]) == 0 -> break
    od;
    do
    :: len(acks[c]) > 0 -> acks[c] ? _
    :: len(acks[c]) == 0 -> break
    od;
#ifndef OLD_RELEASES_COUNT
    do
    :: len(releases[c]) > 0 -> releases[c] ? _, _, _, _, _
    :: len(releases[c]) == 0 -> break
    od;
#endif
    next[c] = 1; last[c] = 0; first[c] = 1; seen[c] = 0; owed[c] = false
}

/* --- the consumer --- */

inline drop(s, c) {
    if
    :: WORKS_ON(s, c) -> heartbeat[c].busy = false; heartbeat[c].slab = 0; heartbeat[c].generation = 0; heartbeat[c].attempt = 0
    :: else
    fi;
    at_hand[c].generation[s] = 0; at_hand[c].attempt[s] = 0
}

inline put_release(s, c, generation_of_ticket, attempt_of_ticket, kind) {
    log[c] ! s, generation_of_ticket, attempt_of_ticket, kind;
    if
    :: up && peer[c] && len(releases[c]) < RELEASE_ROOM ->
        releases[c] ! first[c] + len(log[c]) - 1, s, generation_of_ticket, attempt_of_ticket, kind
    :: else   /* later, by a repeated release */
    fi
}

/* Its memory is gone; its heartbeat record, its recorded holds and its releases in flight stay. */
inline end_process(c) {
    alive[c] = false; leaving[c] = false;
    i = 0;
    do
    :: i < SLABS -> at_hand[c].generation[i] = 0; at_hand[c].attempt[i] = 0; i++
    :: i >= SLABS -> break
    od;
    do
    :: len(log[c]) > 0 -> log[c] ? _, _, _, _
    :: len(log[c]) == 0 -> break
    od;
    do
    :: len(work[c]) > 0 -> work[c] ? _, _, _, _
    :: len(work[c]) == 0 -> break
    od;
    do
    :: len(acks[c]) > 0 -> acks[c] ? _
    :: len(acks[c]) == 0 -> break
    od;
    next[c] = 1; last[c] = 0; owed[c] = false;
    number_anew(c)
}

/* --- steps of the producer --- */

inline survive() {
    die_at = 0   /* the action had fewer stores */
}

inline begin_filling(s) {
    promise_memory(!MAY_BE_READ(s));
    slabs_differ = true;
    if
    :: IS_UNMENTIONED(s) -> entry[s].generation = 1
    :: !IS_UNMENTIONED(s) -> skip
    fi;
    ledger_acquire(s)
}

inline send_ticket(s, c) {
    if
    :: up ->
        printf("consumer %d is sent slab %d, generation %d, attempt %d\n", c, s, entry[s].generation, entry[s].attempt);
        if
        :: alive[c] -> work[c] ! next[c], s, entry[s].generation, entry[s].attempt; next[c]++
        :: else
        fi
    :: else
    fi
}

inline forget_holders(s) {
    i = 0;
    do
    :: i < CONSUMERS -> entry[s].holder[i] = 0; i++
    :: i >= CONSUMERS -> break
    od
}

inline forget_acknowledged(c, through) {
    do
    :: first[c] <= through && len(log[c]) > 0 -> log[c] ? _, _, _, _; first[c]++
    :: else -> break
    od;
    n = 0
}

inline judge() {
    printf("the end\n");
    promise_not_lost(left == 0);
    i = 0;
    do
    :: i < SLABS -> promise_not_lost(!wanted[i]); promise_no_leak(entry[i].state == FREE); i++
    :: i >= SLABS -> break
    od;
    i = 0;
    do
    :: i < CONSUMERS -> promise_no_leak(!place[i]); i++
    :: i >= CONSUMERS -> break
    od;
    i = 0
}

/* --- the producer's egress, and dead letters --- */

proctype Slab(byte s) {
end:
    do
    /* Only the next producer sees a slab being filled: one action, during which the producer may die. */
    :: atomic { up && entry[s].state == FREE && left > 0 && (s == 0 || slabs_differ) ->
        may_die_within(2);
        d_step {
            printf("slab %d is filled\n", s);
            begin_filling(s);
            if
            :: up -> left--; wanted[s] = true; ledger_publish(s)
            :: else
            fi;
            survive() } }

    :: atomic { up && entry[s].state == FREE && left > 0 && (s == 0 || slabs_differ) && faults > 0 ->
        faults--;
        may_die_within(2);
        d_step {
            printf("slab %d is to be filled, but its batch is abandoned\n", s);
            begin_filling(s);
            ledger_abandon(s);
            survive() } }

    :: atomic { up && entry[s].state == READY && entry[s].failures > 0 ->   /* max_failures is a setting: any value */
        may_die_within(1);
        d_step {
            printf("slab %d becomes a dead letter\n", s);
            wanted[s] = false; committed[s] = false;
            ledger_dead_letter(s);
            survive() } }

    /* Its batch waits on disk and is filled in again later, like an unpublished one. The file exists before, and the next producer
     * counts it only if the slab is free. A drop of a waiting slab has the same stores. */
    :: atomic { up && entry[s].state == READY && HOLDERS(s) == 0 && entry[s].failures == 0 && faults > 0 ->
        faults--;
        may_die_within(1);
        d_step {
            printf("slab %d is spilled\n", s);
            wanted[s] = false; committed[s] = false;
            left++;
            ledger_vacate(s);
            survive() } }

    :: atomic { up && entry[s].state == DEAD_LETTERED ->
        may_die_within(3);
        d_step {
            printf("the dead letter of slab %d is written\n", s);
            ledger_discard(s);
            survive() } }
    od
}

/* --- one consumer and one slab: tickets out, work done --- */

proctype Delivery(byte s; byte c) {
end:
    do
    :: atomic { MAY_GET(s, c) && len(work[c]) < WORK_ROOM ->
        consumers_differ = true;
        may_die_within(3);
        d_step {
#ifdef PUSH_PULL
            store_state(s, LEASED, entry[s].attempt + 1, entry[s].generation);
            send_ticket(s, c);
#elif defined(HOLDER_AFTER_TICKET)
            store_state(s, LEASED, entry[s].attempt + 1, entry[s].generation);
            send_ticket(s, c);
            if
            :: up -> stored()
            :: else
            fi;
            store_holder(s, c, entry[s].attempt);
#else
            ledger_lease(s, c);
            send_ticket(s, c);
#endif
            survive() } }

#ifndef PUSH_PULL
    :: atomic { MAY_GET(s, c) && faults > 0 ->
        consumers_differ = true;
        faults--;
        may_die_within(4);
        d_step {
            printf("consumer %d's connection does not take the ticket of slab %d\n", c, s);
            ledger_lease(s, c);
            if
            :: up -> ledger_take_back(s, c)
            :: else
            fi;
            survive() } }

    :: atomic { up && entry[s].state == LEASED && entry[s].holder[c] == entry[s].attempt && faults > 0 ->
        faults--;
        may_die_within(1);
        d_step {
            printf("consumer %d's lease of slab %d runs out\n", c, s);
#ifdef RECYCLE_ON_EXPIRY
            wanted[s] = false; committed[s] = false;   /* the batch does not matter here, only the memory */
            forget_holders(s);
            free_slab(s);
#else
            ledger_expire(s);
#endif
            survive() } }
#endif

    /* The previous run is dead. Its consumer, in the process that is now consumer c of this run, finishes its slab s only now. All
     * numbers of its first release are also valid here; only the run in the message differs. */
    :: d_step { up && alive[c] && peer[c] && faults > 0 && len(releases[c]) < RELEASE_ROOM ->
        faults--;
#ifdef MESSAGES_NAME_NO_RUN
        printf("consumer %d's release of a dead run's slab %d comes\n", c, s);
        releases[c] ! 1, s, 1, 1, COMPLETED
#else
        printf("consumer %d's release of a dead run's slab %d is refused: it names another run\n", c, s)
#endif
        }

    /* Any slab that it holds: the order is not modelled. */
    :: d_step { alive[c] && !leaving[c] && !heartbeat[c].busy && at_hand[c].attempt[s] != 0 ->
        heartbeat[c].busy = true; heartbeat[c].slab = s;
        heartbeat[c].generation = at_hand[c].generation[s]; heartbeat[c].attempt = at_hand[c].attempt[s];
        printf("consumer %d reads slab %d, generation %d\n", c, s, heartbeat[c].generation);
        promise_memory(entry[s].generation == heartbeat[c].generation && entry[s].state != FREE && entry[s].state != FILLING) }

    :: d_step { alive[c] && WORKS_ON(s, c) && len(log[c]) < LOG_ROOM ->
        g = at_hand[c].generation[s]; a = at_hand[c].attempt[s];
        printf("consumer %d commits the results of slab %d, and releases it as completed\n", c, s);
        promise_memory(entry[s].generation == g);
        committed[s] = wanted[s];
        drop(s, c);
        put_release(s, c, g, a, COMPLETED) }

    /* It leaves, its sink is unavailable, or it sees that its visibility timeout has expired. */
    :: d_step { alive[c] && at_hand[c].attempt[s] != 0 && len(log[c]) < LOG_ROOM &&
            ((leaving[c] && !WORKS_ON(s, c)) || (!leaving[c] && faults > 0)) ->
        if
        :: !leaving[c] -> faults--
        :: else
        fi;
        g = at_hand[c].generation[s]; a = at_hand[c].attempt[s];
        printf("consumer %d returns slab %d\n", c, s);
        drop(s, c);
        put_release(s, c, g, a, RETURNED) }

    /* Its processor raises an error, and the consumer lives. */
    :: d_step { alive[c] && WORKS_ON(s, c) && len(log[c]) < LOG_ROOM && faults > 0 ->
        faults--;
        g = at_hand[c].generation[s]; a = at_hand[c].attempt[s];
        printf("consumer %d reports that slab %d failed\n", c, s);
        drop(s, c);
        put_release(s, c, g, a, FAILED) }
    od
}

/* --- one consumer: its messages, its broker's side, its end, and the network between --- */

proctype Consumer(byte c) {
end:
    do
    :: d_step { alive[c] && len(work[c]) > 0 && len(log[c]) < LOG_ROOM ->
        work[c] ? n, o, g, a;
        if
        :: n <= last[c] -> printf("consumer %d has delivery %d already\n", c, n)
        :: n == last[c] + 1 ->
            last[c] = n;
            printf("consumer %d gets slab %d, generation %d, attempt %d\n", c, o, g, a);
            if
            :: leaving[c] -> put_release(o, c, g, a, RETURNED)
            :: else -> at_hand[c].generation[o] = g; at_hand[c].attempt[o] = a
            fi
        :: else -> printf("consumer %d sees that a delivery is missing, and ends\n", c); end_process(c)
        fi;
        number_anew(c) }

    :: d_step { alive[c] && len(acks[c]) > 0 ->
        acks[c] ? n;
        printf("consumer %d is answered: releases through %d\n", c, n);
        forget_acknowledged(c, n);
        number_anew(c) }

#ifndef RELEASE_ONCE
    :: d_step { alive[c] && up && peer[c] && len(log[c]) > 0 && len(releases[c]) + len(acks[c]) == 0 && !owed[c] ->
        printf("consumer %d repeats unanswered releases\n", c);
        k = len(log[c]);
        i = 0;
        do
        :: i < k ->
            log[c] ? o, g, a, n;
            log[c] ! o, g, a, n;
            releases[c] ! first[c] + i, o, g, a, n;
            i++
        :: i >= k -> break
        od;
        i = 0 }
#endif

    :: d_step { alive[c] && HAS_NOTHING(c) && len(log[c]) + len(acks[c]) == 0 && (leaving[c] || RUN_IS_OVER) ->
        printf("consumer %d disconnects\n", c);
        end_process(c) }

    :: d_step { alive[c] && !leaving[c] && faults > 0 && IS_MET(c) ->
        consumers_differ = true;
        faults--;
        leaving[c] = true;
        printf("consumer %d is asked to leave\n", c) }

    :: d_step { alive[c] && faults > 0 && IS_MET(c) ->
        consumers_differ = true;
        faults--;
        printf("consumer %d dies\n", c);
        end_process(c) }

    /* --- the broker --- */

    :: atomic { up && peer[c] && len(releases[c]) > 0 ->
        may_die_within(4);
        d_step {
            releases[c] ? n, o, g, a, k;
            if
            :: n == seen[c] + 1 ->
                printf("consumer %d's release %d is taken: slab %d, generation %d, attempt %d\n", c, n, o, g, a);
                seen[c] = n;
                ledger_release(o, c, g, a, k)
            :: else -> printf("consumer %d's release %d was taken, or is beyond a gap\n", c, n)
            fi;
            if
            :: up && alive[c] && len(acks[c]) == 0 -> acks[c] ! seen[c]
            :: up && alive[c] && len(acks[c]) > 0 -> owed[c] = true
            :: else
            fi;
            number_anew(c);
            survive() } }

    :: d_step { up && owed[c] && len(acks[c]) == 0 ->
        owed[c] = false;
        if
        :: alive[c] -> acks[c] ! seen[c]
        :: else
        fi }

    /* Hello, Challenge, Answer and Welcome. An index is reused only after its previous process is reaped. */
    :: d_step { up && !place[c] && !RUN_IS_OVER ->
        printf("another consumer %d is admitted\n", c);
        alive[c] = true; place[c] = true; peer[c] = true }

    /* A pidfd's readiness reports a death; a Disconnect has the same effect. */
    :: atomic { up && place[c] && !alive[c] ->
        may_die_within(4 * SLABS);
        d_step {
            printf("consumer %d is found dead\n", c);
#ifndef PUSH_PULL
            i = 0;
            do
            :: i < SLABS ->
                ledger_revoke(i, c, (WORKS_ON(i, c) && heartbeat[c].attempt == entry[i].holder[c] &&
                                     heartbeat[c].generation == entry[i].generation));
                i++
            :: i >= SLABS -> break
            od;
#endif
            if
            :: up ->
                place[c] = false; peer[c] = false;
                heartbeat[c].busy = false; heartbeat[c].slab = 0; heartbeat[c].generation = 0; heartbeat[c].attempt = 0;
                cut(c)
            :: else
            fi;
            survive() } }

    /* A consumer finds the new producer. It has closed its old connection, so no old ticket reaches it. It names the slabs that
     * it holds and its unanswered releases; every other hold of its session is taken back. */
    :: atomic { up && place[c] && alive[c] && !peer[c] && IS_MET(c) ->
        consumers_differ = true;
        may_die_within(3 * SLABS);
        d_step {
            printf("consumer %d connects to the new producer\n", c);
            cut(c);
            i = 0;
            do
            :: i < SLABS ->
                if
                :: HOLDS(i, c) ->
                    if
                    :: HAS_AT_HAND(i, c) -> skip
                    :: HAS_RELEASED(i, c) -> skip
                    :: !HAS_AT_HAND(i, c) && !HAS_RELEASED(i, c) -> ledger_take_back(i, c)
                    fi
                :: !HOLDS(i, c) -> skip
                fi;
                i++
            :: i >= SLABS -> break
            od;
            if
            :: up -> peer[c] = true
            :: else
            fi;
            survive() } }

    /* --- the network --- */

    :: d_step { faults > 0 && len(work[c]) > 0 ->
        faults--;
        work[c] ? n, o, g, a;
        printf("consumer %d's delivery %d is lost\n", c, n) }
    :: d_step { faults > 0 && len(work[c]) > 0 && len(work[c]) < WORK_ROOM ->
        faults--;
        work[c] ? n, o, g, a;
        work[c] ! n, o, g, a;
        work[c] ! n, o, g, a;
        printf("consumer %d's delivery %d comes twice\n", c, n) }
    :: d_step { faults > 0 && len(work[c]) > 1 ->
        faults--;
        work[c] ? n, o, g, a;
        work[c] ! n, o, g, a;
        printf("consumer %d's delivery %d is overtaken\n", c, n) }
    :: d_step { faults > 0 && len(releases[c]) > 0 ->
        faults--;
        releases[c] ? n, o, g, a, k;
        printf("consumer %d's release %d is lost\n", c, n);
        number_anew(c) }
    :: d_step { faults > 0 && len(releases[c]) > 0 && len(releases[c]) < RELEASE_ROOM ->
        faults--;
        releases[c] ? n, o, g, a, k;
        releases[c] ! n, o, g, a, k;
        releases[c] ! n, o, g, a, k;
        printf("consumer %d's release %d comes twice\n", c, n) }
    :: d_step { faults > 0 && len(releases[c]) > 1 ->
        faults--;
        releases[c] ? n, o, g, a, k;
        releases[c] ! n, o, g, a, k;
        printf("consumer %d's release %d is overtaken\n", c, n) }
    :: d_step { faults > 0 && len(acks[c]) > 0 ->
        faults--;
        acks[c] ? n;
        printf("consumer %d's acknowledgement through %d is lost\n", c, n);
        number_anew(c) }
    /* One copy arrives now. The other waits, with everything after it. */
    :: d_step { faults > 0 && alive[c] && len(acks[c]) > 0 ->
        faults--;
        acks[c] ? n;
        acks[c] ! n;
        printf("consumer %d is answered: releases through %d, and will be again\n", c, n);
        forget_acknowledged(c, n) }
    od
}

/* --- the launcher, and the judge --- */

init {
    byte s, c;
    atomic {
        d_step {
            i = 0;
            do
            :: i < CONSUMERS -> next[i] = 1; first[i] = 1; alive[i] = true; place[i] = true; peer[i] = true; i++
            :: i >= CONSUMERS -> break
            od;
            i = 0;
            do
            :: i < SLABS -> entry[i].generation = 1; i++
            :: i >= SLABS -> break
            od;
            i = 0 }
        do
        :: s < SLABS ->
            run Slab(s);
            c = 0;
            do
            :: c < CONSUMERS -> run Delivery(s, c); c++
            :: else -> break
            od;
            s++
        :: else -> break
        od;
        c = 0;
        do
        :: c < CONSUMERS -> run Consumer(c); c++
        :: else -> break
        od
    }
end:
    do
    :: d_step { up && faults > 0 -> faults--; up = false; printf("the producer dies\n") }

    :: atomic { !up ->
        up = true;
        may_die_within(2 * SLABS);
        d_step {
            printf("a new producer adopts the ledger\n");
            i = 0;
            do
            :: i < CONSUMERS -> peer[i] = false; owed[i] = false; i++
            :: i >= CONSUMERS -> break
            od;
            i = 0;
            do
            :: i < SLABS -> ledger_adopt(i); i++
            :: i >= SLABS -> break
            od;
            survive() } }

    /* The final state. A consumer that lost its last ticket never learns of it: it is stalled and killed. */
    :: atomic { timeout && !judged ->
        d_step {
            i = 0;
            do
            :: i < CONSUMERS && !(alive[i] && next[i] > last[i] + 1) -> i++
            :: else -> break
            od;
            if
            :: i < CONSUMERS -> printf("consumer %d is stalled, and killed\n", i); n = i; end_process(n)
            :: else -> judged = true; judge()
            fi } }
    od
}
