/* Offramp: outputs off the GPU, for programs of one's own, in any language that can call C.
 *
 * A producer opens an egress and submits batches of tensors that are on the device, on a stream of its own; a consumer
 * attaches to the run by its directory and reads slabs in shared memory. Delivery is at least once: what a consumer
 * that dies was reading goes to another one.
 *
 * Every call returns an offramp_code and, where an `offramp_error` is given, says why in a sentence with a remedy. No
 * exception, exit, abort, signal handler or output on a terminal comes out of it. Text is UTF-8.
 *
 * A struct whose first field is `size` has its size in bytes there, sizeof of it: later versions grow at the end only,
 * and what is not there is 0. Zero it before you fill it in (`offramp_egress_options options = {0}`): a word that was
 * reserved may get a meaning, and an older library ignores it. offramp_error and offramp_dtype never grow; from one
 * offramp_sample to the next are offramp_slab.sample_size bytes.
 *
 * A handle belongs to the process that made it: in a forked child every call on it returns OFFRAMP_WRONG_PROCESS and
 * does nothing, and the child keeps none of the run's locks. Calls on one handle may come from any thread.
 * offramp_egress_submit() and offramp_egress_drain() take turns: one that waits for slabs keeps the other waiting, and
 * a timeout counts from the turn on; all other calls take none.
 *
 * A handle is closed when no other call on it runs, offramp_consumer_stop() in a signal handler included. Afterwards
 * every call on it, as on a pointer that no open call returned, is refused with OFFRAMP_BAD_ARGUMENT and reads nothing
 * of it. A handle that is opened later may get the address of a closed one, and then is meant: forget what you closed.
 */
#ifndef OFFRAMP_H
#define OFFRAMP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(OFFRAMP_BUILDING)
#define OFFRAMP_API __attribute__((visibility("default")))
#else
#define OFFRAMP_API
#endif

/* Exit codes of programs have the same numbers (launch/guide/reference/exit-codes.md). An error without a code here is
 * OFFRAMP_INTERNAL. */
typedef enum offramp_code {
    OFFRAMP_OK = 0,
    OFFRAMP_INTERNAL = 1,        /* a fault of ours */
    OFFRAMP_TIMEOUT = 2,         /* not yet: call again */
    OFFRAMP_WRONG_PROCESS = 3,   /* the handle was made by another process, before a fork */
    OFFRAMP_CALLBACK_FAILED = 4, /* a consumer's own function said that it failed */
    OFFRAMP_FAILED = 5,          /* of a consumer's function: the slab failed, and this process can go on */
    OFFRAMP_REJECTED = 6,        /* of a consumer's function: no consumer will do better */
    OFFRAMP_BAD_ARGUMENT = 64,
    OFFRAMP_NO_SUCH_RUN = 69,
    OFFRAMP_SYSTEM = 71,
    OFFRAMP_CANNOT_WRITE = 73,
    OFFRAMP_RETRY = 75, /* of a consumer's function: its sink is away; give the slab back without counting a failure */
    OFFRAMP_PROTOCOL = 76,
    OFFRAMP_NOT_PERMITTED = 77,
    OFFRAMP_SHARED_MEMORY_FULL = 80,
    OFFRAMP_DEVICE_OUT_OF_MEMORY = 81,
    OFFRAMP_DEVICE_BROKEN = 82, /* the device's context is lost: end the process */
    OFFRAMP_DEVICE_UNSUPPORTED = 83,
    OFFRAMP_RUN_IN_USE = 85, /* another producer has this run directory */
    OFFRAMP_PRODUCER_GONE = 86,
    OFFRAMP_STOPPED = 130 /* by offramp_consumer_stop(), or a run that takes no more */
} offramp_code;

typedef struct offramp_error {
    int32_t code;    /* an offramp_code */
    char text[1020]; /* one line, cut where it is longer; NUL-terminated */
} offramp_error;

/* Type codes are DLPack's: 0 integer, 1 unsigned, 2 float, 4 bfloat, 6 bool. */
typedef struct offramp_dtype {
    uint8_t code;
    uint8_t bits;   /* 8, 16, 32 or 64 */
    uint16_t lanes; /* 1 */
} offramp_dtype;

/* Dimension 0 counts samples, and all samples of a run have one shape. Samples of several sizes go as the largest: pad
 * them, submit a tensor of their lengths beside them, and cut in the consumer. */
typedef struct offramp_tensor {
    size_t size;
    const char* name; /* at most 63 bytes */
    offramp_dtype dtype;
    uint32_t dims; /* 1 to 8 */
    const int64_t* shape;
    const int64_t* strides; /* in elements; NULL: row-major. Samples lie one after another without gaps */
    const void* data;       /* read-only bytes: of a consumer's slab; NULL in offramp_egress_options */
} offramp_tensor;

OFFRAMP_API const char* offramp_version(void);
OFFRAMP_API const char* offramp_code_name(int32_t code); /* "OFFRAMP_TIMEOUT"; "?" for any other number */

/* ---- producer ------------------------------------------------------------------------------------------------------
 */

typedef struct offramp_egress offramp_egress;

/* Whatever is 0 or NULL but for `tensors` and `run_dir` is chosen. */
typedef struct offramp_egress_options {
    size_t size;
    const char* run_dir;           /* where consumers meet the run: absent, empty, or an earlier run's */
    const offramp_tensor* tensors; /* of one batch; shape[0]: the most samples that one holds */
    uint32_t tensor_count;         /* 1 to 16 */
    const char* device;            /* where they are: "auto", "cpu", "cuda", "cuda:N" */
    const char* run_id;            /* in the names of shared memory: letters, digits, '.', '_', '-', at most 48 */
    const char* name;              /* of what fills the slabs, for consumers; at most 63 bytes */
    uint32_t slabs;                /* shared-memory buffers of samples_per_slab samples */
    uint32_t samples_per_slab;
    uint32_t max_key_bytes;            /* 255; at most 1024 */
    uint32_t max_consumers;            /* 64, which is the most */
    uint32_t drop_when_full;           /* 1: a batch that finds no free slab is dropped and counted; 0: submit waits */
    uint32_t max_failures;              /* 3: deaths and failures that a slab may cause before it is dead-lettered */
    double max_delay_seconds;          /* 0.002: of a small batch that waits for others to share its slab */
    double visibility_timeout_seconds; /* 30: without progress, before another consumer gets the slab, too */
    uint32_t report_completed;           /* 1: offramp_egress_take_completed() tells which items are done */
    uint32_t kill_stalled;             /* 1: a consumer without progress for that long is killed (SIGKILL), which is
                                          counted against the slab that it worked on; one in the process of the egress itself
                                          never is. 0: it stays, and keeps its slabs. No other number */
    uint32_t report_failed;            /* 1: offramp_egress_take_failed() tells which items will not be done */
    uint32_t reserved;
} offramp_egress_options;

/* Makes shared memory, page-locks it, and lets consumers in. Blocks until the first slabs are there. A child that the
 * process forks inherits no memory, lock or socket of the run. Where no descriptor is left for a consumer
 * that connects, the consumer waits until there is one. */
OFFRAMP_API int32_t offramp_egress_open(const offramp_egress_options* options, offramp_egress** egress,
                                        offramp_error* error);

typedef struct offramp_batch {
    size_t size;
    const void* const* tensors; /* addresses on the device, in the options' order; dense, `rows` samples each */
    uint32_t tensor_count;
    uint32_t rows;           /* 1 to the options' shape[0] */
    const char* const* keys; /* one a row, which names its results; NULL: the items' numbers */
    const uint64_t* items;   /* one a row, rising from batch to batch; NULL: counted on */
    void* stream; /* cudaStream_t or CUstream that the tensors are written on; NULL: the legacy stream. Not used on the
                     CPU */
    void* owner;  /* handed to `release`, on any thread, also within this call, when the tensors may be overwritten or
                     freed; a call of the library within it returns OFFRAMP_BAD_ARGUMENT */
    void (*release)(void* owner); /* NULL: nobody needs to know. Never called for a batch that was refused */
    double timeout_seconds;       /* of the wait for slabs; 0 or less: until there are some */
    /* In place of `keys`, where an array of pointers is dear: one key after another, a NUL behind each. */
    const char* key_text;
    size_t key_text_bytes;
    uint64_t* released; /* set by a call that takes the batch, as by offramp_egress_wait_released(); NULL: not asked */
} offramp_batch;

/* Returns at once; waits only while all slabs are full, and returns OFFRAMP_TIMEOUT when the batch's `timeout_seconds`
 * are over before: it was not taken, and may be submitted again. Keys and items are copied; the tensors are read later,
 * behind the work that the stream has now. */
OFFRAMP_API int32_t offramp_egress_submit(offramp_egress* egress, const offramp_batch* batch, offramp_error* error);

/* Takes no more, and returns when consumers are done with everything. OFFRAMP_TIMEOUT after `timeout_seconds`
 * (negative: never): call again. A slab that no consumer comes back from keeps it waiting for as long as they live,
 * unless kill_stalled is set; one that only some hang on another consumer finishes. */
OFFRAMP_API int32_t offramp_egress_drain(offramp_egress* egress, double timeout_seconds, offramp_error* error);

typedef struct offramp_egress_stats {
    size_t size;
    uint64_t batches_submitted, samples_submitted;
    uint64_t samples_published, samples_completed, samples_dropped, samples_dead_lettered;
    uint64_t bytes_copied;
    double copy_seconds;      /* of the device */
    double slab_wait_seconds; /* the copies waited for a free slab */
    uint32_t consumers;       /* living */
    uint32_t stalled;         /* of them: without progress for the visibility timeout, and holding slabs */
} offramp_egress_stats;

/* `stats->size` is set by the caller. */
OFFRAMP_API int32_t offramp_egress_get_stats(offramp_egress* egress, offramp_egress_stats* stats,
                                               offramp_error* error);

/* Ends the run and frees the handle, in any case but OFFRAMP_WRONG_PROCESS and within a batch's `release`. What was not
 * drained is abandoned. NULL is allowed. */
OFFRAMP_API int32_t offramp_egress_close(offramp_egress* egress, offramp_error* error);

/* ---- consumer ------------------------------------------------------------------------------------------------------
 */

typedef struct offramp_consumer offramp_consumer;

typedef struct offramp_consumer_options {
    size_t size;
    const char* run_dir; /* seen from the working directory, as in offramp_egress_options */
    uint32_t window;     /* slabs held at once; 0: chosen */
    uint32_t reserved;
    double wait_for_run_seconds; /* for a run that is not there yet; 0: 10 */
} offramp_consumer_options;

/* Nothing of the run is touched before offramp_consumer_run(). */
OFFRAMP_API int32_t offramp_consumer_open(const offramp_consumer_options* options, offramp_consumer** consumer,
                                          offramp_error* error);

typedef struct offramp_sample {
    uint64_t item;
    uint64_t batch;
    const char* key; /* NUL-terminated */
    size_t key_bytes;
    uint32_t row;  /* of dimension 0 of every tensor */
    uint32_t empty; /* 1: the item could not be read; its row means nothing */
} offramp_sample;

/* Of one slab, valid during the call that it is given to; read-only memory. */
typedef struct offramp_slab {
    size_t size;
    size_t sample_size; /* from one sample to the next, in bytes */
    size_t tensor_size; /* from one tensor to the next */
    const offramp_sample* samples;
    uint32_t sample_count;
    uint32_t tensor_count;
    const offramp_tensor* tensors;
    const char* name; /* offramp_egress_options.name */
} offramp_slab;

/* OFFRAMP_OK: the results are committed, the slab may be reused. OFFRAMP_RETRY: a sink is away; the slab goes back
 * without counting a failure, and offramp_consumer_run() returns OFFRAMP_RETRY. OFFRAMP_FAILED: a failure is counted, and the slab goes to another
 * consumer, or once more to this one; OFFRAMP_REJECTED: it is dead-lettered immediately; in both cases the next slab follows.
 * Anything else: a failure is counted as well, and offramp_consumer_run() returns OFFRAMP_CALLBACK_FAILED. It may be
 * called again with the same samples, in this or another process: commit so that this leaves the same. */
typedef int32_t (*offramp_process)(void* user, const offramp_slab* slab);

/* Attaches to the run, calls `process` for one slab after another on this thread, and returns when the run has ended
 * (OFFRAMP_OK) or offramp_consumer_stop() was called (OFFRAMP_STOPPED). Whatever it returns, the run has been given
 * back every slab and this consumer's place. OFFRAMP_PRODUCER_GONE: the producer died. One thread at a time. */
OFFRAMP_API int32_t offramp_consumer_run(offramp_consumer* consumer, offramp_process process, void* user,
                                         offramp_error* error);

/* From `process`: says that this consumer is at work; at least once in the run's visibility timeout. */
OFFRAMP_API int32_t offramp_consumer_progress(offramp_consumer* consumer);
/* From `process`, before a commit: 1 when the slab is still this consumer's to commit, else 0. Never needed to be
 * correct. */
OFFRAMP_API int32_t offramp_consumer_still_current(offramp_consumer* consumer);
/* From `process`, before it returns OFFRAMP_FAILED or OFFRAMP_REJECTED: why, for people. UTF-8 of one or several lines;
 * the first 2031 bytes are kept with the slab, if it is dead-lettered. */
OFFRAMP_API int32_t offramp_consumer_explain(offramp_consumer* consumer, const char* why);
/* Finishes the slab at hand and ends offramp_consumer_run(), for ever: a later one returns OFFRAMP_STOPPED at once.
 * From any thread, and from a signal handler: it takes no lock. */
OFFRAMP_API int32_t offramp_consumer_stop(offramp_consumer* consumer);
/* Frees the handle; not while offramp_consumer_run() runs. NULL is allowed. */
OFFRAMP_API int32_t offramp_consumer_close(offramp_consumer* consumer, offramp_error* error);

/* ---- producer, for languages whose functions no thread of the library may call -------------------------------------
 */

/* How many batches' tensors may be overwritten or freed, in place of their `release`, or after it: the first
 * `*released` ones that were taken, in the order in which they were submitted. Returns when these are more than `seen`,
 * or OFFRAMP_TIMEOUT after `timeout_seconds` (negative: never); `*released` is set in both cases. Takes no turn: it
 * waits beside other calls on the handle. */
OFFRAMP_API int32_t offramp_egress_wait_released(offramp_egress* egress, uint64_t seen, double timeout_seconds,
                                                 uint64_t* released, offramp_error* error);
/* The same for a thread beside a loop that asks by itself, with each batch (offramp_batch.released): it is told of
 * nothing as long as batches are taken within `quiet_seconds` (0: 0.02) of one another, and no call of the loop has to
 * wake it, which would take longer than the call. OFFRAMP_TIMEOUT only while there is a batch that is not released;
 * without one it sleeps. OFFRAMP_STOPPED after offramp_egress_end_waits(). */
OFFRAMP_API int32_t offramp_egress_wait_unattended(offramp_egress* egress, uint64_t seen, double quiet_seconds,
                                                   double timeout_seconds, uint64_t* released, offramp_error* error);
/* Ends offramp_egress_wait_unattended() of other threads, now and from now on: for who is about to close the egress. */
OFFRAMP_API int32_t offramp_egress_end_waits(offramp_egress* egress, offramp_error* error);

/* ---- producer, for who notes what is done, to go on from there another time ----------------------------------------
 */

/* The items from `begin` to before `end`. Never grows. */
typedef struct offramp_items {
    uint64_t begin, end;
} offramp_items;

/* Which items are done that no earlier call told of: a consumer committed their results, and said so. What was dropped
 * or dead-lettered is not among them. At most `capacity` ranges, in order; `*count` is how many. OFFRAMP_TIMEOUT, and 0 of
 * them, when there are none within `timeout_seconds` (negative: never). Only with the option `report_completed`. Takes no
 * turn; after offramp_egress_drain() it tells the rest. */
OFFRAMP_API int32_t offramp_egress_take_completed(offramp_egress* egress, offramp_items* ranges, uint32_t capacity,
                                                  double timeout_seconds, uint32_t* count, offramp_error* error);
/* The same of items that will not be done: they were dropped, or dead-lettered. Only with the option
 * `report_failed`. */
OFFRAMP_API int32_t offramp_egress_take_failed(offramp_egress* egress, offramp_items* ranges, uint32_t capacity,
                                                 double timeout_seconds, uint32_t* count, offramp_error* error);

#ifdef __cplusplus
}
#endif
#endif
