/* Several groups of consumers over the same slabs: each group has a ledger and a counted step of its own, and one thread
 * changes them, group by group. The producer may die after any store, also during a recovery. What happens to a slab
 * within one group is in broker.pml: here a ready slab is completed at any time. The first two groups may spill: a
 * ready slab goes to the group's disk, which holds one, and comes back into a slab that is free in all groups. */

#ifndef SLABS
#define SLABS 2
#endif
#ifndef GROUPS
#define GROUPS 2
#endif
#ifndef BATCHES
#define BATCHES 3
#endif
#ifndef FAULTS
#define FAULTS 2
#endif
#ifndef SPILLS
#define SPILLS 2
#endif
#define NO_FILE BATCHES

mtype = { free, filling, ready };
mtype = { nothing, publish, complete };

typedef Ledger {
    mtype state[SLABS];
    byte generation[SLABS];
    /* the progress record: totals, and the step that was counted last */
    byte published, completed;
    mtype step;
    byte step_slab, step_generation
};
Ledger group[GROUPS];
byte content[SLABS];      /* the batch in the slab's memory */
byte disk[GROUPS];        /* the batch in the group's file, or NO_FILE */
byte spills = SPILLS;

/* the outsider's notes */
typedef Seen { bool batch[BATCHES] };
Seen seen[GROUPS];
bool no_reader_sees_a_refill = true;
bool no_group_is_skipped = true;
bool generations_agree = true;

bool up = true;
byte faults = FAULTS;
byte die_at;              /* it dies right after this store of its action; 0: it lives */

inline may_die_within(stores) {
    do
    :: faults > 0 && die_at < stores -> die_at++
    :: break
    od
}
/* One store, unless the producer is dead. */
#define STORE(change) if :: up -> change; if :: die_at == 1 -> die_at = 0; faults--; up = false :: die_at > 1 -> die_at-- :: else fi :: else fi

#define IN_ALL(s, wanted) (group[0].state[s] == wanted && group[1].state[s] == wanted && group[GROUPS - 1].state[s] == wanted)
#ifdef FREE_IN_ONE
#define MAY_FILL(s) (group[0].state[s] == free)
#else
#define MAY_FILL(s) IN_ALL(s, free)
#endif

byte g, s, latest;        /* of the current action */

/* One record of several words becomes current by one store. */
inline count(which, kind, slab) {
    d_step {
        if
        :: kind == publish -> group[which].published++
        :: else -> group[which].completed++
        fi;
        group[which].step = kind; group[which].step_slab = slab; group[which].step_generation = group[which].generation[slab]
    }
}
inline free_slab(which, slab) {
    d_step { group[which].state[slab] = free; group[which].generation[slab]++ }
}
inline fill(slab) {
    for (g : 0 .. GROUPS - 1) { no_reader_sees_a_refill = no_reader_sees_a_refill && group[g].state[slab] != ready }
    assert(no_reader_sees_a_refill);
    may_die_within(GROUPS);
    for (g : 0 .. GROUPS - 1) { STORE(group[g].state[slab] = filling) }
    if
    :: up -> content[slab] = group[0].published
    :: else
    fi
}
inline spill(which, slab) {
    spills--;
    may_die_within(2);
    STORE(disk[which] = content[slab]);
    STORE(free_slab(which, slab))
}
/* The others pass over the filling: their next generation begins. */
inline pass_over(which, slab) {
    for (g : 0 .. GROUPS - 1) {
        if
#ifndef PASS_OVER_NONE
        :: g != which -> STORE(group[g].generation[slab]++)
#endif
        :: else
        fi
    }
}
inline read_back(which, slab) {
    for (g : 0 .. GROUPS - 1) { no_reader_sees_a_refill = no_reader_sees_a_refill && group[g].state[slab] != ready }
    assert(no_reader_sees_a_refill);
    may_die_within(GROUPS + 2);
    STORE(group[which].state[slab] = filling);
    if
    :: up -> content[slab] = disk[which]
    :: else
    fi;
#ifdef REMOVE_FILE_FIRST
    STORE(disk[which] = NO_FILE);
#endif
    pass_over(which, slab);
    STORE(group[which].state[slab] = ready);
    STORE(disk[which] = NO_FILE)
}
inline give_to_all(slab) {
    may_die_within(2 * GROUPS);
    for (g : 0 .. GROUPS - 1) {
        STORE(count(g, publish, slab));
        STORE(group[g].state[slab] = ready)
    }
}
inline give_up(slab) {
    may_die_within(GROUPS);
    for (g : 0 .. GROUPS - 1) { STORE(free_slab(g, slab)) }
}
inline finish(which, slab) {
    may_die_within(2);
    if
    :: !seen[which].batch[content[slab]] -> seen[which].batch[content[slab]] = true
    :: else           /* delivered again after a death: the results are the same */
    fi;
    STORE(count(which, complete, slab));
    STORE(free_slab(which, slab))
}

/* A publication that the first group counted is counted for all. */
inline count_last_publication() {
    for (g : 1 .. GROUPS - 1) {
        if
        :: group[0].step == publish && group[g].state[group[0].step_slab] == filling &&
           group[g].generation[group[0].step_slab] == group[0].step_generation &&
           !(group[g].step == publish && group[g].step_slab == group[0].step_slab &&
             group[g].step_generation == group[0].step_generation) ->
            STORE(count(g, publish, group[0].step_slab))
        :: else
        fi
    }
}
inline take_counted_step(which) {
    s = group[which].step_slab;
    if
    :: group[which].step == publish && group[which].state[s] == filling && group[which].generation[s] == group[which].step_generation ->
        STORE(group[which].state[s] = ready)
    :: group[which].step == complete && group[which].state[s] == ready && group[which].generation[s] == group[which].step_generation ->
        STORE(free_slab(which, s))
    :: else
    fi
}
inline abandon_filling(which) {
    for (s : 0 .. SLABS - 1) {
        if
        :: group[which].state[s] == filling -> STORE(free_slab(which, s))
        :: else
        fi
    }
}
/* A file whose batch waits in memory is a copy. */
inline remove_copies() {
    for (g : 0 .. GROUPS - 1) {
        for (s : 0 .. SLABS - 1) {
            if
            :: group[g].state[s] == ready && disk[g] == content[s] -> STORE(disk[g] = NO_FILE)
            :: else
            fi
        }
    }
}
inline raise_generations() {
    for (s : 0 .. SLABS - 1) {
        if
        :: IN_ALL(s, free) ->
            latest = 0;
            for (g : 0 .. GROUPS - 1) {
                if
                :: group[g].generation[s] > latest -> latest = group[g].generation[s]
                :: else
                fi
            }
            for (g : 0 .. GROUPS - 1) {
                if
                :: group[g].generation[s] < latest -> STORE(group[g].generation[s] = latest)
                :: else
                fi
            }
        :: else
        fi
    }
}
inline check_generations() {
    for (s : 0 .. SLABS - 1) {
        for (g : 0 .. GROUPS - 1) {
            for (latest : 0 .. GROUPS - 1) {
                generations_agree = generations_agree &&
                    (group[g].generation[s] + (group[g].state[s] != free -> 1 : 0) ==
                     group[latest].generation[s] + (group[latest].state[s] != free -> 1 : 0))
            }
        }
    }
    assert(generations_agree)
}
inline recover() {
    up = true;
    may_die_within(GROUPS * (SLABS + 3) + SLABS);
#ifndef SKIP_HALF_GIVEN
    count_last_publication();
#endif
    for (g : 0 .. GROUPS - 1) {
        take_counted_step(g);
        abandon_filling(g)
    }
#ifndef KEEP_GENERATIONS
    raise_generations();
#endif
#ifndef KEEP_COPIES
    remove_copies();
#endif
    if
    :: up -> check_generations()
    :: else
    fi
}
inline judge() {
    for (g : 0 .. GROUPS - 1) {
        no_group_is_skipped = no_group_is_skipped && group[g].published == BATCHES && group[g].completed == BATCHES;
        for (s : 0 .. BATCHES - 1) { no_group_is_skipped = no_group_is_skipped && seen[g].batch[s] }
    }
    assert(no_group_is_skipped)
}
/* One slab is filled at a time: the batches have an order. */
byte at_work = SLABS;

active proctype broker() {
    atomic {
        for (g : 0 .. GROUPS - 1) {
            for (s : 0 .. SLABS - 1) { group[g].state[s] = free; group[g].generation[s] = 1 }
            group[g].step = nothing; disk[g] = NO_FILE
        }
        g = 0; s = 0
    }
    do
    :: atomic { !up -> at_work = SLABS; recover(); die_at = 0; g = 0; s = 0; latest = 0 }
    :: atomic { up && at_work == SLABS && group[0].published < BATCHES && MAY_FILL(0) -> fill(0); at_work = 0; die_at = 0; g = 0 }
    :: atomic { up && at_work == SLABS && group[0].published < BATCHES && MAY_FILL(1) -> fill(1); at_work = 1; die_at = 0; g = 0 }
    :: atomic { up && at_work < SLABS -> give_to_all(at_work); at_work = SLABS; die_at = 0; g = 0 }
    :: atomic { up && at_work < SLABS && faults > 0 -> faults--; give_up(at_work); at_work = SLABS; die_at = 0; g = 0 }
    :: atomic { up && group[0].state[0] == ready -> finish(0, 0); die_at = 0 }
    :: atomic { up && group[0].state[1] == ready -> finish(0, 1); die_at = 0 }
    :: atomic { up && group[1].state[0] == ready -> finish(1, 0); die_at = 0 }
    :: atomic { up && group[1].state[1] == ready -> finish(1, 1); die_at = 0 }
    :: atomic { up && spills > 0 && disk[0] == NO_FILE && group[0].state[0] == ready -> spill(0, 0); die_at = 0 }
    :: atomic { up && spills > 0 && disk[0] == NO_FILE && group[0].state[1] == ready -> spill(0, 1); die_at = 0 }
    :: atomic { up && spills > 0 && disk[1] == NO_FILE && group[1].state[0] == ready -> spill(1, 0); die_at = 0 }
    :: atomic { up && spills > 0 && disk[1] == NO_FILE && group[1].state[1] == ready -> spill(1, 1); die_at = 0 }
    :: atomic { up && disk[0] != NO_FILE && MAY_FILL(0) -> read_back(0, 0); die_at = 0; g = 0 }
    :: atomic { up && disk[0] != NO_FILE && MAY_FILL(1) -> read_back(0, 1); die_at = 0; g = 0 }
    :: atomic { up && disk[1] != NO_FILE && MAY_FILL(0) -> read_back(1, 0); die_at = 0; g = 0 }
    :: atomic { up && disk[1] != NO_FILE && MAY_FILL(1) -> read_back(1, 1); die_at = 0; g = 0 }
#if GROUPS > 2
    :: atomic { up && group[2].state[0] == ready -> finish(2, 0); die_at = 0 }
    :: atomic { up && group[2].state[1] == ready -> finish(2, 1); die_at = 0 }
#endif
    :: atomic { up && at_work == SLABS && group[0].published == BATCHES && IN_ALL(0, free) && IN_ALL(1, free) && disk[0] == NO_FILE && disk[1] == NO_FILE -> judge(); break }
    od
}
