/* Consumers call process() for each slab, which is a batch of a model's outputs, or a part of one.
 *
 *     cc -O2 -shared -fPIC NAME.c -o NAME.so $(pkg-config --cflags offramp)
 *     ./launch/offramp run --input FOLDER --model MODEL.pt2 --processor so:./NAME.so --output RESULTS
 */
#include <offramp_processor.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct own {
    double factor; /* --processor-option factor=2 */
};

static int32_t create(const offramp_host* host, const offramp_processor_options* options, void** self) {
    struct own made = {1};
    for (uint32_t i = 0; i < options->option_count; ++i) {
        if (strcmp(options->keys[i], "factor") != 0)
            return host->explain(host, "the only option is factor"), OFFRAMP_BAD_ARGUMENT;
        made.factor = strtod(options->values[i], NULL);
    }
    if (options->only_check) return OFFRAMP_OK; /* before a run, without slabs */
    *self = malloc(sizeof made);
    if (*self == NULL) return host->explain(host, "out of memory"), OFFRAMP_SYSTEM;
    memcpy(*self, &made, sizeof made);
    return OFFRAMP_OK;
}

static int32_t process(void* self, const offramp_host* host, const offramp_slab* slab) {
    const struct own* own = self;
    const offramp_tensor* tensor = slab->tensors;            /* the first */
    if (tensor->dtype.code != 2 || tensor->dtype.bits != 32) /* DLPack's codes: 0 int, 1 unsigned, 2 float */
        return host->explain(host, "the outputs are not float32"), OFFRAMP_REJECTED;
    for (uint32_t i = 0; i < slab->sample_count; ++i) {
        const offramp_sample* sample = (const void*)((const char*)slab->samples + i * slab->sample_size);
        if (sample->empty) continue; /* it could not be read */
        const float* values = tensor->data;
        size_t count = 1;
        if (tensor->rows != NULL) { /* samples differ in shape */
            values = tensor->rows[sample->row].data;
            count = tensor->rows[sample->row].bytes / sizeof(float);
        } else {
            for (uint32_t dim = 1; dim < tensor->dims; ++dim) count *= (size_t)tensor->shape[dim];
            values += sample->row * count;
        }
        double sum = 0;
        for (size_t at = 0; at < count; ++at) sum += values[at];
        char text[64];
        int length =
            snprintf(text, sizeof text, "{\"mean\": %.17g}", count == 0 ? 0 : own->factor * sum / (double)count);
        int32_t code = host->commit_file(host, i, ".json", text, (size_t)length); /* KEY.json */
        if (code != OFFRAMP_OK) return code;
        code = host->commit_record(host, i, text, (size_t)length); /* a line of records.jsonl */
        if (code != OFFRAMP_OK) return code;
    }
    return OFFRAMP_OK;
}

static const offramp_processor processor = {
    .size = sizeof processor,
    .create = create,
    .process = process,
    .destroy = free,
    .takes_variable = 1, /* process() reads `rows` */
};

const offramp_processor* offramp_processor_v1(void) { return &processor; }
