#include <offramp_processor.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "consumer/processors/raw/row_chunks.hpp"

// User processors in C++, for the rows W12: `--processor-option work=nothing`, `hash` or `copy`.
namespace {

const offramp_sample& sample_of(const offramp_slab& slab, std::uint32_t index) {
    return *reinterpret_cast<const offramp_sample*>(reinterpret_cast<const std::byte*>(slab.samples) +
                                                    index * slab.sample_size);
}

const offramp_tensor& tensor_of(const offramp_slab& slab, std::uint32_t index) {
    return *reinterpret_cast<const offramp_tensor*>(reinterpret_cast<const std::byte*>(slab.tensors) +
                                                    index * slab.tensor_size);
}

std::span<const std::byte> rows_of(const offramp_tensor& tensor, std::int64_t first, std::int64_t count) {
    std::size_t bytes = tensor.dtype.bits / 8;
    for (std::uint32_t dim = 1; dim < tensor.dims; ++dim) bytes *= static_cast<std::size_t>(tensor.shape[dim]);
    return {static_cast<const std::byte*>(tensor.data) + static_cast<std::size_t>(first) * bytes,
            static_cast<std::size_t>(count) * bytes};
}

class Work {
  public:
    virtual ~Work() = default;
    virtual void over(const offramp_slab& slab, const offramp::Progress& progress) = 0;
};

// With the loop of the processor `checksum`.
class Hash final : public Work {
  public:
    void over(const offramp_slab& slab, const offramp::Progress& progress) override {
        for (std::uint32_t i = 0; i < slab.sample_count; ++i)
            for (std::uint32_t t = 0; sample_of(slab, i).empty == 0 && t < slab.tensor_count; ++t)
                sum_ += hash_.of(rows_of(tensor_of(slab, t), sample_of(slab, i).row, 1), progress);
    }

  private:
    offramp::RowHash hash_;
    std::uint64_t sum_ = 0;
};

// Copies each tensor into its own buffer, which exists from the first slab on, like processors.py.
class Copy final : public Work {
  public:
    void over(const offramp_slab& slab, const offramp::Progress& /*progress*/) override {
        buffers_.resize(slab.tensor_count);
        for (std::uint32_t t = 0; t < slab.tensor_count; ++t) {
            const std::span<const std::byte> whole = rows_of(tensor_of(slab, t), 0, tensor_of(slab, t).shape[0]);
            if (buffers_[t].size() < whole.size()) buffers_[t].resize(whole.size());
            std::memcpy(buffers_[t].data(), whole.data(), whole.size());
        }
    }

  private:
    std::vector<std::vector<std::byte>> buffers_;
};

struct Own {
    std::unique_ptr<Work> work;  // null: do nothing
};

std::int32_t create(const offramp_host* host, const offramp_processor_options* options, void** self) {
    auto own = std::make_unique<Own>();
    for (std::uint32_t i = 0; i < options->option_count; ++i) {
        const std::string_view key = options->keys[i], value = options->values[i];
        if (key == "work" && value == "hash")
            own->work = std::make_unique<Hash>();
        else if (key == "work" && value == "copy")
            own->work = std::make_unique<Copy>();
        else if (key != "work" || value != "nothing")
            return host->explain(host, "give --processor-option work=nothing, hash or copy"), OFFRAMP_BAD_ARGUMENT;
    }
    if (options->only_check == 0) *self = own.release();
    return OFFRAMP_OK;
}

std::int32_t process(void* self, const offramp_host* host, const offramp_slab* slab) {
    const Own& own = *static_cast<const Own*>(self);
    if (own.work) own.work->over(*slab, [host] { host->progress(host); });
    return OFFRAMP_OK;
}

void destroy(void* self) { delete static_cast<Own*>(self); }

constexpr offramp_processor kProcessor{sizeof kProcessor, create, process, destroy};

}  // namespace

const offramp_processor* offramp_processor_v1(void) { return &kProcessor; }
