/* Offramp: a post-processor of one's own, as a shared object, for `--processor so:./mine.so`.
 *
 * The object exports offramp_processor_v1(). A consumer of Offramp opens it, makes one processor and gives it one slab
 * after another, on one thread. Delivery is at least once: killed at any point and run again, in another process,
 * `process` must leave the same. What it commits through the host is so by itself: files are named by the sample and
 * appear whole, records are merged by the sample's item.
 *
 * A struct whose first field is `size` has its size in bytes there; later versions grow at the end only.
 */
#ifndef OFFRAMP_PROCESSOR_H
#define OFFRAMP_PROCESSOR_H

#include <offramp.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a processor may ask of the consumer that runs it, on the thread on which it was called, and only until it
 * returns. The first argument of each is the host itself. */
typedef struct offramp_host {
    size_t size;
    /* Says that this consumer is at work; at least once in the run's visibility timeout. Cheap. */
    void (*progress)(const struct offramp_host* host);
    /* Before a commit: 1 when the slab is still this consumer's, else 0: another does the work then. Never needed to be
     * correct. */
    int32_t (*still_current)(const struct offramp_host* host);
    /* OUTPUT/KEY + `ending`, of the slab's sample `sample` (an index of offramp_slab.samples); `ending` begins with a
     * dot. Once a name: what `process` committed for this slab is not replaced by it. Returns when the file is in its
     * place, or the slab is no longer this consumer's. OFFRAMP_BAD_ARGUMENT, OFFRAMP_CANNOT_WRITE: return it from
     * `process`.
     */
    int32_t (*commit_file)(const struct offramp_host* host, uint32_t sample, const char* ending, const void* bytes,
                           size_t count);
    /* One line of OUTPUT/records.jsonl: `json` is an object, UTF-8; the sample's item and key are added in front. Any
     * number a sample. They are committed together when `process` has returned OFFRAMP_OK. */
    int32_t (*commit_record)(const struct offramp_host* host, uint32_t sample, const char* json, size_t count);
    /* Why `create` or `process` is about to return another code than OFFRAMP_OK, for people; kept with a slab that is
     * dead-lettered. */
    void (*explain)(const struct offramp_host* host, const char* why);
} offramp_host;

typedef struct offramp_processor_options {
    size_t size;
    const char* name;   /* as --processor has it */
    const char* output; /* the folder for its results; "" where the run has none */
    uint32_t option_count;
    uint32_t only_check;     /* 1: before a run. Say whether it could be made; no slab comes, `*self` is not used */
    const char* const* keys; /* of --processor-option KEY=VALUE, each at most once */
    const char* const* values;
} offramp_processor_options;

typedef struct offramp_processor {
    size_t size;
    /* Once a consumer, before its first slab, and once before the run (`only_check`). `*self` is handed to the others.
     * Anything but OFFRAMP_OK ends the consumer and the run, which would not get further with another one;
     * OFFRAMP_RETRY, where a sink is away, the consumer alone: it is started again. */
    int32_t (*create)(const offramp_host* host, const offramp_processor_options* options, void** self);
    /* One slab. OFFRAMP_OK, OFFRAMP_RETRY, OFFRAMP_FAILED, OFFRAMP_REJECTED: as of offramp_process (offramp.h), and
     * what a commit returned. Any other code is a failure, too, and the next slab follows. */
    int32_t (*process)(void* self, const offramp_host* host, const offramp_slab* slab);
    /* At the consumer's end in order; NULL: nothing is to be done. */
    void (*destroy)(void* self);
} offramp_processor;

/* What the shared object exports. The struct lives as long as the object. */
__attribute__((visibility("default"))) const offramp_processor* offramp_processor_v1(void);

#ifdef __cplusplus
}
#endif
#endif
