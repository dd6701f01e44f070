#include <memory>

#include "common/app/settings/declared_setting.hpp"
#include "producer/runner/run/egress_strategy.hpp"
#include "producer/runner/run/run_producer.hpp"

namespace {

std::unique_ptr<offramp::EgressStrategy> choose_egress(const offramp::RunConfig& config) {
    if (!offramp::ChosenEgress::in(config.catalogue).is_preset) return nullptr;
    return std::make_unique<offramp::StreamedEgress>();
}

}  // namespace

int main(int argc, char** argv) {
    return offramp::run_producer(argc, argv, {.name = "offramp-producer", .choose_egress = choose_egress});
}
