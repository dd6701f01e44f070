#include "producer/ladder/rung_egress.hpp"
#include "producer/runner/run/run_producer.hpp"

int main(int argc, char** argv) {
    return offramp::run_producer(argc, argv,
                                 {.name = "offramp-ladder", .choose_egress = offramp::RungEgress::chosen_by});
}
