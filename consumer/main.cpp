#include "consumer/worker/run_consumer.hpp"

int main(int argc, char** argv) {
    return offramp::run_consumer(argc, argv, {.make = [](const offramp::RunConfig& config) {
                                     return offramp::make_processor(config.processor, config);
                                 }});
}
