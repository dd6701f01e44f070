// Consumers call process() for each slab, which is a batch of a model's outputs, or a part of one.
//
//     c++ -std=c++20 -O2 -shared -fPIC NAME.cpp -o NAME.so $(pkg-config --cflags offramp)
//     ./launch/offramp run --input FOLDER --model MODEL.pt2 --processor so:./NAME.so --output RESULTS
#include <offramp_processor.h>

#include <exception>
#include <numeric>
#include <offramp/consumer.hpp>
#include <string>
#include <string_view>

namespace {

struct Own {
    double factor = 1;  // --processor-option factor=2

    std::int32_t process(const offramp_host* host, const offramp::Slab& slab) const {
        for (std::uint32_t i = 0; i < slab.size(); ++i) {
            if (slab.sample(i).empty != 0) continue;  // it could not be read
            const auto values = slab.row<float>(i);   // of the first tensor
            const double sum = std::accumulate(values.begin(), values.end(), 0.0);
            const double mean = values.empty() ? 0 : factor * sum / static_cast<double>(values.size());
            const std::string text = "{\"mean\": " + std::to_string(mean) + "}";
            std::int32_t code = host->commit_file(host, i, ".json", text.data(), text.size());  // KEY.json
            if (code == OFFRAMP_OK)
                code = host->commit_record(host, i, text.data(), text.size());  // a line of records.jsonl
            if (code != OFFRAMP_OK) return code;
        }
        return OFFRAMP_OK;
    }
};

// Catches all exceptions: the caller is C.
template <class Work>
std::int32_t in_c(const offramp_host* host, std::int32_t otherwise, Work work) noexcept {
    try {
        return work();
    } catch (const std::exception& problem) {
        host->explain(host, problem.what());
    } catch (...) {
        host->explain(host, "an exception of an unknown kind");
    }
    return otherwise;
}

std::int32_t create(const offramp_host* host, const offramp_processor_options* options, void** self) {
    return in_c(host, OFFRAMP_BAD_ARGUMENT, [&] {
        Own made;
        for (std::uint32_t i = 0; i < options->option_count; ++i) {
            if (std::string_view(options->keys[i]) != "factor")
                throw std::invalid_argument("the only option is factor");
            made.factor = std::stod(options->values[i]);
        }
        if (options->only_check == 0) *self = new Own(made);  // no instance before a run
        return OFFRAMP_OK;
    });
}

std::int32_t process(void* self, const offramp_host* host, const offramp_slab* slab) {
    return in_c(host, OFFRAMP_FAILED,
                [&] { return static_cast<const Own*>(self)->process(host, offramp::Slab(*slab)); });
}

void destroy(void* self) { delete static_cast<Own*>(self); }

}  // namespace

extern "C" const offramp_processor* offramp_processor_v1() {
    static constexpr offramp_processor made{
        .size = sizeof made,
        .create = create,
        .process = process,
        .destroy = destroy,
        .takes_variable = 1,  // Slab::row() reads samples of any shape
        .reserved = 0,
    };
    return &made;
}
