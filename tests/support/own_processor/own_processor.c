/* A user processor as a shared object: writes KEY.sum and a record per sample. Its option `die` kills the process once,
 * before it commits the slab with that item; the file in the option records the death. */

#include <fcntl.h>
#include <offramp_processor.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct own {
    long die_at;
    char once[4096];
};

static int32_t create(const offramp_host* host, const offramp_processor_options* options, void** self) {
    struct own own = {-1, ""};
    for (uint32_t i = 0; i < options->option_count; ++i) {
        if (strcmp(options->keys[i], "die") == 0)
            own.die_at = strtol(options->values[i], NULL, 10);
        else if (strcmp(options->keys[i], "once") == 0)
            snprintf(own.once, sizeof own.once, "%s", options->values[i]);
        else
            return host->explain(host, "there is no such option"), OFFRAMP_BAD_ARGUMENT;
    }
    if (options->only_check) return OFFRAMP_OK;
    *self = malloc(sizeof own);
    if (*self == NULL) return OFFRAMP_SYSTEM;
    memcpy(*self, &own, sizeof own);
    return OFFRAMP_OK;
}

static int32_t process(void* self, const offramp_host* host, const offramp_slab* slab) {
    const struct own* own = self;
    const offramp_tensor* tensor = slab->tensors;
    size_t bytes = tensor->dtype.bits / 8;
    for (uint32_t dim = 1; dim < tensor->dims && tensor->rows == NULL; ++dim) bytes *= (size_t)tensor->shape[dim];
    for (uint32_t i = 0; i < slab->sample_count; ++i) {
        const offramp_sample* sample = (const void*)((const char*)slab->samples + i * slab->sample_size);
        if (sample->empty) continue;
        if ((long)sample->item == own->die_at && open(own->once, O_CREAT | O_EXCL, 0600) >= 0) kill(getpid(), SIGKILL);
        const unsigned char* data = tensor->data;
        if (tensor->rows == NULL) {
            data += sample->row * bytes;
        } else {
            data = tensor->rows[sample->row].data;
            bytes = tensor->rows[sample->row].bytes;
        }
        unsigned long sum = 0;
        for (size_t at = 0; at < bytes; ++at) sum += data[at];
        char text[64];
        int length = snprintf(text, sizeof text, "%lu\n", sum);
        host->progress(host);
        int32_t code = host->commit_file(host, i, ".sum", text, (size_t)length);
        if (code != OFFRAMP_OK) return code;
        length = snprintf(text, sizeof text, "{\"sum\": %lu}", sum);
        code = host->commit_record(host, i, text, (size_t)length);
        if (code != OFFRAMP_OK) return code;
    }
    return OFFRAMP_OK;
}

static const offramp_processor own = {sizeof own, create, process, free, 1, 0};

const offramp_processor* offramp_processor_v1(void) { return &own; }
