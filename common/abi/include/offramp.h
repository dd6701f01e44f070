/* Offramp: moves outputs off the GPU. The C interface, for programs in any language that can call C.
 *
 * A producer opens an egress and submits batches of device tensors on its own stream. A consumer attaches to the run
 * by its directory and reads slabs in shared memory. Delivery is at least once: when a consumer dies, another one gets
 * the slabs that it held.
 *
 * Every call returns an offramp_code. On failure it fills in the `offramp_error`, if you pass one, with the reason and
 * a remedy. The library never throws, exits, aborts, installs a signal handler or writes to a terminal. Text is UTF-8.
 *
 * Where a struct's first field is `size`, it holds the sizeof of the struct. Later versions only append fields, and a
 * missing field counts as 0. Zero the struct before you fill it in (`offramp_egress_options options = {0}`): a later
 * version may use a reserved field. offramp_error and offramp_dtype never grow. Step through samples by
 * offramp_slab.sample_size bytes.
 *
 * A handle belongs to the process that made it. In a forked child every call on it does nothing and returns
 * OFFRAMP_WRONG_PROCESS, and the child keeps none of the run's locks. Any thread may call on a handle.
 * offramp_egress_submit() and offramp_egress_drain() are serialized: while one waits for slabs, the other waits too,
 * and its timeout starts when its own work starts. All other calls run concurrently.
 *
 * Close a handle only when no other call on it runs, including offramp_consumer_stop() in a signal handler. A call on
 * a closed handle, or on a pointer that no open call returned, returns OFFRAMP_BAD_ARGUMENT without reading it. Forget
 * a closed handle: a later one may get the same address.
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
    OFFRAMP_INTERNAL = 1,        /* a bug in Offramp */
    OFFRAMP_TIMEOUT = 2,         /* not yet: call again */
    OFFRAMP_WRONG_PROCESS = 3,   /* another process made the handle, before a fork */
    OFFRAMP_CALLBACK_FAILED = 4, /* a consumer's function returned a failure */
    OFFRAMP_FAILED = 5,          /* from a consumer's function: the slab failed; this process can go on */
    OFFRAMP_REJECTED = 6,        /* from a consumer's function: no consumer can process the slab */
    OFFRAMP_BAD_ARGUMENT = 64,
    OFFRAMP_NO_SUCH_RUN = 69,
    OFFRAMP_SYSTEM = 71,
    OFFRAMP_CANNOT_WRITE = 73,
    OFFRAMP_RETRY = 75, /* from a consumer's function: its sink is unavailable; the slab goes back without a failure */
    OFFRAMP_PROTOCOL = 76,
    OFFRAMP_NOT_PERMITTED = 77,
    OFFRAMP_SHARED_MEMORY_FULL = 80,
    OFFRAMP_DEVICE_OUT_OF_MEMORY = 81,
    OFFRAMP_DEVICE_BROKEN = 82, /* the device's context is lost: end the process */
    OFFRAMP_DEVICE_UNSUPPORTED = 83,
    OFFRAMP_RUN_IN_USE = 85, /* another producer uses this run directory */
    OFFRAMP_PRODUCER_GONE = 86,
    OFFRAMP_STOPPED = 130 /* by offramp_consumer_stop(), or the run accepts no more */
} offramp_code;

typedef struct offramp_error {
    int32_t code;    /* an offramp_code */
    char text[1020]; /* one line, truncated to fit; NUL-terminated */
} offramp_error;

/* Type codes are DLPack's: 0 integer, 1 unsigned, 2 float, 4 bfloat, 6 bool. */
typedef struct offramp_dtype {
    uint8_t code;
    uint8_t bits;   /* 8, 16, 32 or 64 */
    uint16_t lanes; /* 1 */
} offramp_dtype;

/* In offramp_tensor.shape: samples differ in this dimension, which is not the first. */
#define OFFRAMP_VARIABLE (-1)

/* One sample of a tensor with OFFRAMP_VARIABLE. Never grows. */
typedef struct offramp_row {
    const void* data; /* row-major */
    size_t bytes;
    const int64_t* shape; /* its own: offramp_tensor.dims - 1 extents, which may be 0 */
} offramp_row;

/* Dimension 0 counts samples. Samples have one shape, except in dimensions that are OFFRAMP_VARIABLE. */
typedef struct offramp_tensor {
    size_t size;
    const char* name; /* at most 63 bytes */
    offramp_dtype dtype;
    uint32_t dims; /* 1 to 8 */
    const int64_t* shape;
    const int64_t* strides; /* in elements; NULL: row-major, as with OFFRAMP_VARIABLE. Samples are contiguous */
    const void* data; /* read-only bytes in a consumer's slab; NULL in offramp_egress_options and if `rows` is set */
    const offramp_row* rows; /* in a consumer's slab, with OFFRAMP_VARIABLE: one per sample; else NULL */
} offramp_tensor;

OFFRAMP_API const char* offramp_version(void);
OFFRAMP_API const char* offramp_code_name(int32_t code); /* "OFFRAMP_TIMEOUT"; "?" for any other number */

/* ---- producer ------------------------------------------------------------------------------------------------------
 */

typedef struct offramp_egress offramp_egress;

/* offramp_egress_options.drop_when_full: what is dropped when no slab is free. */
enum {
    OFFRAMP_DROP_NEWEST = 1, /* the submitted batch */
    OFFRAMP_DROP_OLDEST = 2  /* the slab that has waited longest for a consumer. If consumers hold all slabs, submit
                                waits */
};

/* Set `tensors` and `run_dir`. A field that is 0 or NULL gets its default. */
typedef struct offramp_egress_options {
    size_t size;
    const char* run_dir;           /* where consumers find the run: absent, empty, or an earlier run's */
    const offramp_tensor* tensors; /* of one batch; shape[0]: its usual samples, by which slabs are sized */
    uint32_t tensor_count;         /* 1 to 16 */
    const char* device;            /* where the tensors are: "auto", "cpu", "cuda", "cuda:N" */
    const char* run_id;            /* in the names of shared memory: letters, digits, '.', '_', '-', at most 48 */
    const char* name;              /* shown to consumers; at most 63 bytes */
    uint32_t slabs;                /* shared-memory buffers of samples_per_slab samples */
    uint32_t samples_per_slab;
    uint32_t max_key_bytes;            /* 255; at most 1024 */
    uint32_t max_consumers;            /* 64; at most 64 */
    uint32_t drop_when_full;           /* 0: submit waits; OFFRAMP_DROP_NEWEST or OFFRAMP_DROP_OLDEST: drop and count */
    uint32_t max_failures;             /* 3: failures and deaths of consumers before a slab is dead-lettered */
    double max_delay_seconds;          /* 0.002: how long a small batch waits for others to share its slab */
    double visibility_timeout_seconds; /* 30: time without progress before another consumer also gets the slab */
    uint32_t report_completed;         /* 1: offramp_egress_take_completed() returns completed items */
    uint32_t kill_stalled;             /* 1: kill (SIGKILL) a consumer without progress for the visibility timeout, and
                                          count a failure against its slab; never one in the egress's own process.
                                          0: the consumer stays and keeps its slabs. No other value is valid */
    uint32_t report_failed;            /* 1: offramp_egress_take_failed() returns dropped and dead-lettered items */
    uint32_t metadata_bytes;           /* 0; at most 16384: largest metadata of a sample */
    uint64_t slab_bytes;       /* 64 MiB: room in a slab for all tensors with OFFRAMP_VARIABLE. A sample must fit */
    const char* const* groups; /* groups of consumers, each of which gets every slab: "masks"; "preview,drop-oldest" for
                                  one whose oldest waiting slab is dropped when no slab is free; "preview,optional" if
                                  the run does not wait for it, either. Names: at most 16 lower-case letters, digits and
                                  '-', a letter first. Needs drop_when_full 0 */
    uint32_t group_count;      /* 0: the run has no groups; at most 8 */
} offramp_egress_options;

/* Creates and page-locks shared memory, then accepts consumers. Blocks until the first slabs exist. A forked child
 * inherits no memory, lock or socket of the run. When the process is out of file descriptors, a connecting consumer
 * waits for one. */
OFFRAMP_API int32_t offramp_egress_open(const offramp_egress_options* options, offramp_egress** egress,
                                        offramp_error* error);

typedef struct offramp_batch {
    size_t size;
    const void* const* tensors; /* addresses on the device, in the options' order; dense, `rows` samples each */
    uint32_t tensor_count;
    uint32_t rows;           /* 1 to 65536. A slab holds part of a large batch */
    const char* const* keys; /* one per row, names its results; NULL: the items' numbers. Consumers that write files
                                refuse absolute paths and ".." */
    const uint64_t* items;   /* one per row, rising from batch to batch; NULL: counted on */
    void* stream; /* cudaStream_t or CUstream that writes the tensors; NULL: the legacy stream. Ignored on the CPU */
    void* owner;  /* passed to `release` when the tensors may be overwritten or freed: on any thread, also within this
                     call. Within `release`, calls into the library return OFFRAMP_BAD_ARGUMENT */
    void (*release)(void* owner); /* may be NULL. Not called for a rejected batch */
    double timeout_seconds;       /* maximum wait for slabs; 0 or less: no limit */
    /* Instead of `keys`, when an array of pointers is expensive: keys one after another, each NUL-terminated. */
    const char* key_text;
    size_t key_text_bytes;
    uint64_t* released; /* set when the batch is accepted, as by offramp_egress_wait_released(); may be NULL */
    /* With OFFRAMP_VARIABLE, by tensor; an entry is NULL for a tensor without it.
     * extents[t]: for each row, its extents in the variable dimensions, in their order. 0 is allowed.
     * addresses[t]: for each row, its address on the device. NULL, or addresses is NULL: the rows follow one another
     * from tensors[t]. */
    const int64_t* const* extents;
    const void* const* const* addresses;
    const char* const* metadata; /* one per row: a JSON object in UTF-8, or NULL. NULL: no metadata */
} offramp_batch;

/* Waits only while all slabs are full. OFFRAMP_TIMEOUT after the batch's `timeout_seconds`: the batch was not
 * accepted; you may submit it again. Keys, metadata and items are copied. The tensors are read later, after the work
 * already queued on the stream. */
OFFRAMP_API int32_t offramp_egress_submit(offramp_egress* egress, const offramp_batch* batch, offramp_error* error);

/* Accepts no more batches, and returns when consumers have finished all slabs. OFFRAMP_TIMEOUT after `timeout_seconds`
 * (negative: never): call again. A slab that stalls one consumer goes to another. If it stalls every consumer, the
 * drain waits while they live; set kill_stalled to end them. */
OFFRAMP_API int32_t offramp_egress_drain(offramp_egress* egress, double timeout_seconds, offramp_error* error);

typedef struct offramp_egress_stats {
    size_t size;
    uint64_t batches_submitted, samples_submitted;
    /* with OFFRAMP_DROP_OLDEST, samples dropped while they waited are counted as published, too */
    uint64_t samples_published, samples_completed, samples_dropped, samples_dead_lettered;
    uint64_t bytes_copied;
    double copy_seconds;      /* spent by the device */
    double slab_wait_seconds; /* copies waiting for a free slab */
    uint32_t consumers;       /* living */
    uint32_t stalled;         /* consumers that hold slabs without progress for the visibility timeout */
} offramp_egress_stats;

/* The caller sets `stats->size`. */
OFFRAMP_API int32_t offramp_egress_get_stats(offramp_egress* egress, offramp_egress_stats* stats, offramp_error* error);

/* Ends the run and frees the handle, except on OFFRAMP_WRONG_PROCESS and within a batch's `release`. Abandons batches
 * that were not drained. NULL is allowed. */
OFFRAMP_API int32_t offramp_egress_close(offramp_egress* egress, offramp_error* error);

/* ---- consumer ------------------------------------------------------------------------------------------------------
 */

typedef struct offramp_consumer offramp_consumer;

typedef struct offramp_consumer_options {
    size_t size;
    const char* run_dir;         /* seen from the working directory, as in offramp_egress_options */
    uint32_t window;             /* slabs held concurrently; 0: automatic */
    uint32_t takes_variable;     /* 1: the function reads offramp_tensor.rows. 0: offramp_consumer_run() returns
                                    OFFRAMP_BAD_ARGUMENT for a run with OFFRAMP_VARIABLE */
    double wait_for_run_seconds; /* how long to wait for the run to appear; 0: 10 */
    const char* group;           /* of a run with groups: the one to join; NULL: none */
} offramp_consumer_options;

/* Does not attach: offramp_consumer_run() does. */
OFFRAMP_API int32_t offramp_consumer_open(const offramp_consumer_options* options, offramp_consumer** consumer,
                                          offramp_error* error);

typedef struct offramp_sample {
    uint64_t item;
    uint64_t batch;
    const char* key; /* NUL-terminated */
    size_t key_bytes;
    uint32_t row;         /* index in dimension 0 of every tensor */
    uint32_t empty;       /* 1: the item could not be read; ignore its row */
    const char* metadata; /* a JSON object, NUL-terminated; "": none */
    size_t metadata_bytes;
} offramp_sample;

/* One slab: read-only memory, valid during the call that receives it. */
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

/* Processes one slab. Return:
 *   OFFRAMP_OK        the results are committed; the slab may be reused
 *   OFFRAMP_RETRY     a sink is unavailable; the slab goes back without counting a failure, and offramp_consumer_run()
 *                     returns OFFRAMP_RETRY
 *   OFFRAMP_FAILED    a failure is counted; the slab goes to another consumer or again to this one
 *   OFFRAMP_REJECTED  the slab is dead-lettered immediately
 *   anything else     a failure is counted, and offramp_consumer_run() returns OFFRAMP_CALLBACK_FAILED
 *
 * After OFFRAMP_FAILED and OFFRAMP_REJECTED the next slab follows. The same samples may be delivered again, in this or
 * another process: make commits idempotent. */
typedef int32_t (*offramp_process)(void* user, const offramp_slab* slab);

/* Attaches to the run and calls `process` for each slab on this thread. Returns OFFRAMP_OK when the run has ended,
 * OFFRAMP_STOPPED after offramp_consumer_stop(), and OFFRAMP_PRODUCER_GONE when the producer died. In every case the
 * run has its slabs and this consumer's place back. Call from one thread at a time. */
OFFRAMP_API int32_t offramp_consumer_run(offramp_consumer* consumer, offramp_process process, void* user,
                                         offramp_error* error);

/* From `process`: reports progress. Call it at least once per visibility timeout of the run. */
OFFRAMP_API int32_t offramp_consumer_progress(offramp_consumer* consumer);
/* From `process`, before a commit: 1 while this consumer should commit the slab, else 0. An optimization: correctness
 * does not depend on it. */
OFFRAMP_API int32_t offramp_consumer_still_current(offramp_consumer* consumer);
/* From `process`, before it returns OFFRAMP_FAILED or OFFRAMP_REJECTED: the reason, in UTF-8 of one or more lines. A
 * dead letter keeps its first 2031 bytes. */
OFFRAMP_API int32_t offramp_consumer_explain(offramp_consumer* consumer, const char* why);
/* Ends offramp_consumer_run() after the current slab. Permanent: later runs return OFFRAMP_STOPPED immediately. Takes
 * no lock: call it from any thread or signal handler. */
OFFRAMP_API int32_t offramp_consumer_stop(offramp_consumer* consumer);
/* Frees the handle; not while offramp_consumer_run() runs. NULL is allowed. */
OFFRAMP_API int32_t offramp_consumer_close(offramp_consumer* consumer, offramp_error* error);

/* ---- producer, for languages that the library's threads cannot call into -------------------------------------
 */

/* Replaces, or follows, the batches' `release`: the tensors of the first `*released` accepted batches, in the order of
 * submission, may be overwritten or freed. Returns when `*released` exceeds `seen`, or OFFRAMP_TIMEOUT after
 * `timeout_seconds` (negative: never); sets `*released` in both cases. Runs concurrently with other calls. */
OFFRAMP_API int32_t offramp_egress_wait_released(offramp_egress* egress, uint64_t seen, double timeout_seconds,
                                                 uint64_t* released, offramp_error* error);
/* The same, for a thread beside a loop that reads offramp_batch.released with each batch. It does not return while
 * batches are accepted within `quiet_seconds` (0: 0.02) of one another, so the loop need not wake it, which would cost
 * more than the call. OFFRAMP_TIMEOUT only while a batch is unreleased; without one it sleeps. OFFRAMP_STOPPED after
 * offramp_egress_end_waits(). */
OFFRAMP_API int32_t offramp_egress_wait_unattended(offramp_egress* egress, uint64_t seen, double quiet_seconds,
                                                   double timeout_seconds, uint64_t* released, offramp_error* error);
/* Ends current and future calls of offramp_egress_wait_unattended(). Call it before you close the egress. */
OFFRAMP_API int32_t offramp_egress_end_waits(offramp_egress* egress, offramp_error* error);

/* ---- producer, for programs that keep a checkpoint ------------------------------------------------------------------
 */

/* The items from `begin` to before `end`. Never grows. */
typedef struct offramp_items {
    uint64_t begin, end;
} offramp_items;

/* Returns items completed since the last call: a consumer committed their results. Excludes dropped and dead-lettered
 * items. Fills in at most `capacity` ranges, in order, and sets `*count`. OFFRAMP_TIMEOUT with `*count` 0 after
 * `timeout_seconds` (negative: never). Requires the option `report_completed`. Runs concurrently with other calls; call
 * it after offramp_egress_drain() for the remaining items. */
OFFRAMP_API int32_t offramp_egress_take_completed(offramp_egress* egress, offramp_items* ranges, uint32_t capacity,
                                                  double timeout_seconds, uint32_t* count, offramp_error* error);
/* The same for items that were dropped or dead-lettered. Requires the option `report_failed`. */
OFFRAMP_API int32_t offramp_egress_take_failed(offramp_egress* egress, offramp_items* ranges, uint32_t capacity,
                                               double timeout_seconds, uint32_t* count, offramp_error* error);

#ifdef __cplusplus
}
#endif
#endif
