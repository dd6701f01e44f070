/* Offramp: a custom post-processor as a shared object, for `--processor so:./mine.so`.
 *
 * The object exports offramp_processor_v1(). An Offramp consumer opens it, creates one processor and passes it each
 * slab, on one thread. Delivery is at least once: `process` must be idempotent, even when killed at any point and run
 * again in another process. Commits through the host are idempotent: files are named by the sample and appear whole,
 * and records are merged by the sample's item.
 *
 * Where a struct's first field is `size`, it holds the size in bytes. Later versions only append fields.
 */
#ifndef OFFRAMP_PROCESSOR_H
#define OFFRAMP_PROCESSOR_H

#include <offramp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Functions of the consumer that runs the processor. Call them only on the thread that called the processor, and only
 * until it returns. Pass the host as their first argument. */
typedef struct offramp_host {
    size_t size;
    /* Reports progress. Call it at least once per visibility timeout of the run. Cheap. */
    void (*progress)(const struct offramp_host* host);
    /* Before a commit: 1 while this consumer should commit the slab; 0: another consumer processes it. An optimization:
     * correctness does not depend on it. */
    int32_t (*still_current)(const struct offramp_host* host);
    /* Writes OUTPUT/KEY + `ending` for sample `sample` (an index of offramp_slab.samples); `ending` begins with a dot.
     * Commit each name once: `process` cannot replace a file that it committed for this slab. Returns when the file is
     * in place, or when the slab is no longer this consumer's. On OFFRAMP_BAD_ARGUMENT or OFFRAMP_CANNOT_WRITE, return
     * the code from `process`. */
    int32_t (*commit_file)(const struct offramp_host* host, uint32_t sample, const char* ending, const void* bytes,
                           size_t count);
    /* Adds a line to OUTPUT/records.jsonl. `json` is a UTF-8 object; the sample's item and key are added in front. A
     * sample may have any number of records. They are committed together when `process` has returned OFFRAMP_OK. */
    int32_t (*commit_record)(const struct offramp_host* host, uint32_t sample, const char* json, size_t count);
    /* The reason why `create` or `process` is about to return a code other than OFFRAMP_OK. A dead letter keeps it. */
    void (*explain)(const struct offramp_host* host, const char* why);
} offramp_host;

typedef struct offramp_processor_options {
    size_t size;
    const char* name;   /* as given to --processor */
    const char* output; /* folder for its results; "" if the run has none */
    uint32_t option_count;
    uint32_t only_check;     /* 1: check before a run: `create` only validates. No slab follows; `*self` is unused */
    const char* const* keys; /* from --processor-option KEY=VALUE, each at most once */
    const char* const* values;
} offramp_processor_options;

typedef struct offramp_processor {
    size_t size;
    /* Called once per consumer before its first slab, and once before the run (`only_check`). `*self` is passed to the
     * other functions. OFFRAMP_RETRY, for an unavailable sink, ends only the consumer, which is started again. Any
     * other code but OFFRAMP_OK ends the consumer and the run. */
    int32_t (*create)(const offramp_host* host, const offramp_processor_options* options, void** self);
    /* Processes one slab. Return OFFRAMP_OK, OFFRAMP_RETRY, OFFRAMP_FAILED or OFFRAMP_REJECTED, as in offramp_process
     * (offramp.h), or a commit's code. Any other code also counts a failure, and the next slab follows. */
    int32_t (*process)(void* self, const offramp_host* host, const offramp_slab* slab);
    /* Called when the consumer ends normally; may be NULL. */
    void (*destroy)(void* self);
    uint32_t takes_variable; /* 1: `process` reads offramp_tensor.rows. 0: runs with OFFRAMP_VARIABLE are refused */
    uint32_t reserved;
} offramp_processor;

/* The shared object exports this function. The struct lives as long as the object. */
__attribute__((visibility("default"))) const offramp_processor* offramp_processor_v1(void);

#ifdef __cplusplus
}
#endif
#endif
