/* The ledger's transitions, store by store, as producer/ledger/slab_ledger.cpp makes them. Included by broker.pml, which adds
 * the other processes, and by table.pml, which lists the transitions for the comparison with the code.
 *
 * The including file defines up (false: the producer is dead and stores nothing), STORED_...() (observes a store and may clear
 * up: the producer dies right after it), and the outsider's notes note_completed(), note_completed_nothing(), note_freed().
 * All of it is deterministic, so that it may be in a d_step; `hold` is a scratch variable. */

SCRATCH byte hold;

#define FREE 0
#define FILLING 1
#define READY 2
#define LEASED 3
#define RETIRED 4
#define DEAD_LETTERED 5

#define COMPLETED 1
#define RETURNED 2
#define FAILED 3     /* or rejected: the same for the ledger */

#ifdef RELEASE_WITHOUT_GENERATION
#define IS_STALE(generation_of_ticket, s) (false)
#else
#define IS_STALE(generation_of_ticket, s) (generation_of_ticket != entry[s].generation)
#endif

/* Of any recorded holder: consumers that are slower than a lease are overtaken by others, which may be slow, too. */
#ifdef ONLY_THE_LAST_COMPLETES
#define MAY_COMPLETE(attempt_of_ticket, s) (attempt_of_ticket == entry[s].attempt)
#else
#define MAY_COMPLETE(attempt_of_ticket, s) (true)
#endif

typedef Entry {
    byte state;
    byte attempt;
    byte generation;
    byte failures;
    byte holder[CONSUMERS];   /* the attempt of the consumer's hold, by consumer index; 0: none. One hold per consumer */
};
Entry entry[SLABS];

#if CONSUMERS == 2
#define HOLDERS(s) ((entry[s].holder[0] != 0) + (entry[s].holder[1] != 0))
#define IS_ATTEMPT_HELD(s) (entry[s].holder[0] == entry[s].attempt || entry[s].holder[1] == entry[s].attempt)
#else
#define HOLDERS(s) ((entry[s].holder[0] != 0) + (entry[s].holder[1] != 0) + (entry[s].holder[2] != 0))
#define IS_ATTEMPT_HELD(s) \
    (entry[s].holder[0] == entry[s].attempt || entry[s].holder[1] == entry[s].attempt || entry[s].holder[2] == entry[s].attempt)
#endif

#define CAN_LEASE(s, c) (entry[s].state == READY && entry[s].holder[c] == 0 && HOLDERS(s) < MAX_HOLDERS)

/* --- the three stores, one word each: between two of them only the producer's death can happen --- */

inline store_state(s, new_state, new_attempt, new_generation) {
    if
    :: up ->
        entry[s].state = new_state;
        entry[s].attempt = new_attempt;
        entry[s].generation = new_generation;
        STORED_STATE(s)
    :: else
    fi
}

inline store_holder(s, c, new_attempt) {
    if
    :: up -> entry[s].holder[c] = new_attempt; STORED_HOLDER(s, c)
    :: else
    fi
}

inline store_failures(s, new_failures) {
    if
    :: up -> entry[s].failures = new_failures; STORED_FAILURES(s)
    :: else
    fi
}

/* --- steps that several transitions share --- */

inline free_slab(s) {
    if
    :: up -> note_freed(s)
    :: else
    fi;
    if
    :: entry[s].failures != 0 -> store_failures(s, 0)
    :: else
    fi;
    store_state(s, FREE, 0, entry[s].generation + 1)
}

inline free_if_not_held(s) {
    if
    :: HOLDERS(s) == 0 -> free_slab(s)
    :: else
    fi
}

/* A hold ended without completing the slab. */
inline normalise_after_holder_left(s, ended_attempt) {
    if
    :: entry[s].state == LEASED && entry[s].attempt == ended_attempt ->
        store_state(s, READY, entry[s].attempt, entry[s].generation)
    :: entry[s].state == RETIRED -> free_if_not_held(s)
    :: else
    fi
}

/* --- the transitions --- */

inline ledger_acquire(s) { store_state(s, FILLING, entry[s].attempt, entry[s].generation) }

inline ledger_abandon(s) { free_slab(s) }

inline ledger_publish(s) { store_state(s, READY, entry[s].attempt, entry[s].generation) }

inline ledger_lease(s, c) {
    store_holder(s, c, entry[s].attempt + 1);
    store_state(s, LEASED, entry[s].attempt + 1, entry[s].generation)
}

/* A lease whose ticket could not be sent. */
inline ledger_take_back(s, c) {
    hold = entry[s].holder[c];
    store_holder(s, c, 0);
    normalise_after_holder_left(s, hold)
}

inline ledger_expire(s) { store_state(s, READY, entry[s].attempt, entry[s].generation) }

inline ledger_release(s, c, ticket_generation, ticket_attempt, kind) {
    if
    :: IS_STALE(ticket_generation, s) -> skip
    :: else ->
        if
        :: entry[s].holder[c] == 0 || entry[s].holder[c] != ticket_attempt -> skip   /* foreign */
        :: else ->
            if
            :: kind == COMPLETED && (entry[s].state == LEASED || entry[s].state == READY) && MAY_COMPLETE(ticket_attempt, s) ->
                note_completed(s);
                store_state(s, RETIRED, entry[s].attempt, entry[s].generation);
                store_holder(s, c, 0);
                free_if_not_held(s)
            :: else ->
                note_completed_nothing(s, (kind == COMPLETED));
                if
                :: kind == FAILED -> store_failures(s, entry[s].failures + 1)
                :: else
                fi;
                store_holder(s, c, 0);
                normalise_after_holder_left(s, ticket_attempt)
            fi
        fi
    fi
}

/* A dead consumer's hold on one slab ends; `counted`: its heartbeat record named this hold. */
inline ledger_revoke(s, c, counted) {
    if
    :: entry[s].holder[c] != 0 ->
        hold = entry[s].holder[c];
        if
        :: counted -> store_failures(s, entry[s].failures + 1)
        :: else
        fi;
        store_holder(s, c, 0);
        normalise_after_holder_left(s, hold)
    :: else
    fi
}

inline ledger_dead_letter(s) { store_state(s, DEAD_LETTERED, entry[s].attempt, entry[s].generation) }

/* No consumer holds it, and its bytes are on disk, or are dropped. */
inline ledger_vacate(s) { free_slab(s) }

inline ledger_discard(s) {
    store_state(s, RETIRED, entry[s].attempt, entry[s].generation);
    free_if_not_held(s)
}

/* So that no other attempt is mistaken for it. */
inline use_up_attempt_of_half_done_lease(s) {
    hold = entry[s].holder[0];
    hold = (entry[s].holder[1] > hold -> entry[s].holder[1] : hold);
#if CONSUMERS == 3
    hold = (entry[s].holder[2] > hold -> entry[s].holder[2] : hold);
#endif
    if
    :: hold > entry[s].attempt -> store_state(s, READY, hold, entry[s].generation)
    :: else
    fi
}

/* A new producer recovers one slab. */
inline ledger_adopt(s) {
    if
    :: entry[s].state == FILLING -> ledger_abandon(s)
    :: entry[s].state == READY -> use_up_attempt_of_half_done_lease(s)
    :: entry[s].state == LEASED && !IS_ATTEMPT_HELD(s) -> store_state(s, READY, entry[s].attempt, entry[s].generation)
    :: entry[s].state == RETIRED -> free_if_not_held(s)
    :: else
    fi
}
