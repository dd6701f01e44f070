/* Reads a run's slabs in shared memory and prints the sum of each sample, in C. */
#include <offramp.h>
#include <stdio.h>

static int32_t print_sums(void* user, const offramp_slab* slab) {
    for (uint32_t i = 0; i < slab->sample_count; ++i) {
        const offramp_sample* sample = (const void*)((const char*)slab->samples + i * slab->sample_size);
        const float* values = (const float*)slab->tensors[0].data + sample->row * slab->tensors[0].strides[0];
        double sum = 0;
        for (int64_t j = 0; j < slab->tensors[0].shape[1]; ++j) sum += values[j];
        fprintf(user, "%s %.0f\n", sample->key, sum);
    }
    return fflush(user) == 0 ? OFFRAMP_OK : OFFRAMP_RETRY;
}

int main(int argc, char** argv) {
    offramp_error error = {0};
    offramp_consumer* consumer = NULL;
    const offramp_consumer_options options = {.size = sizeof options, .run_dir = argc > 1 ? argv[1] : ""};
    if (offramp_consumer_open(&options, &consumer, &error) == OFFRAMP_OK)
        offramp_consumer_run(consumer, print_sums, stdout, &error);
    if (error.code != OFFRAMP_OK) fprintf(stderr, "%s\n", error.text);
    offramp_consumer_close(consumer, NULL);
    return error.code;
}
