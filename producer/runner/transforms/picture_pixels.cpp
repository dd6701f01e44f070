#include "producer/runner/transforms/picture_pixels.hpp"

#include <array>
#include <span>
#include <utility>

#include "common/base/error.hpp"
#include "common/wire/output_forms.hpp"
#include "producer/runner/kernels/kernels.hpp"
#include "producer/runner/kernels/picture_encoder.hpp"

namespace offramp {
namespace {

constexpr std::int64_t kLongestSide = 65'500;  // as of libjpeg-turbo

bool has_strides_of(const TensorSpec& pictures, const std::array<std::int64_t, 4>& strides) {
    for (std::size_t dim = 0; dim < strides.size(); ++dim)
        if (pictures.shape[dim] > 1 && pictures.strides[dim] != strides[dim]) return false;
    return true;
}

bool is_planar(const TensorSpec& pictures) {
    const auto [rows, channels, height, width] =
        std::array{pictures.shape[0], pictures.shape[1], pictures.shape[2], pictures.shape[3]};
    return has_strides_of(pictures, {channels * height * width, height * width, width, 1});
}

void require_encodable(const TensorSpec& output) {
    const std::string what = "--encode gpu: " + describe_output(output);
    if (output.shape[1] == 4)
        throw ConfigError(what + " has an alpha channel, which JPEG cannot store",
                          "Leave --encode out, and give --image-format png or webp");
    if (output.shape[2] > kLongestSide || output.shape[3] > kLongestSide)
        throw ConfigError(what + " has more than 65500 rows or columns, which JPEG cannot store",
                          "Leave --encode out, and give --image-format png");
    if (!is_planar(output) && !is_channels_last(output))
        throw ConfigError(what + " is neither contiguous nor channels-last", "Leave --encode out");
}

}  // namespace

bool is_channels_last(const TensorSpec& pictures) {
    const auto [channels, height, width] = std::array{pictures.shape[1], pictures.shape[2], pictures.shape[3]};
    return !is_planar(pictures) && has_strides_of(pictures, {channels * height * width, 1, width * channels, channels});
}

PicturePixels::PicturePixels(Device& device, const std::vector<TensorSpec>& outputs, PixelRange range)
    : device_(device), range_(range) {
    std::string reasons;
    bool any = false;
    for (const TensorSpec& output : outputs) {
        encoded_.push_back(output);
        plans_.emplace_back();
        const std::string reason = is_encoded_pictures(output) ? "it is encoded already" : obstacle_to_pictures(output);
        reasons += "; " + describe_output(output) + ": " + reason;
        if (!reason.empty()) continue;
        any = true;
        plan(device, output);
    }
    if (!any)
        throw ConfigError("--encode gpu finds no pictures among the outputs of the model" + reasons,
                          "Leave --encode out, or give a model whose outputs are pictures");
}

void PicturePixels::plan(Device& device, const TensorSpec& output) {
    require_encodable(output);
    Plan plan{.most_bytes = PictureEncoder::most_bytes(static_cast<std::uint32_t>(output.shape[3]),
                                                       static_cast<std::uint32_t>(output.shape[2])),
              .pixels = nullptr,
              .outliers = nullptr};
    if (output.dtype != kUInt8) {
        plan.pixels = std::make_unique<LendingPool<DeviceBuffer>>([&device, bytes = output.elements()] {
            return device.allocate(bytes, "the pixels of pictures to encode");
        });
        plan.outliers = std::make_unique<LendingPool<DeviceBuffer>>([&device, rows = output.rows()] {
            return device.allocate_pinned_host(static_cast<std::size_t>(rows) * sizeof(float),
                                               "what is wrong with pictures");
        });
    }
    plans_.back() = std::move(plan);
    TensorSpec& encoded = encoded_.back();
    encoded = {.name = output.name, .dtype = kUInt8, .dims = 2};
    encoded.shape = {output.rows(), kVarying};
}

void PicturePixels::apply(Stream& compute, std::vector<DeviceTensor>& outputs, std::vector<RowOutliers>& outliers) {
    expect(outputs.size() == plans_.size(), "the model returns the outputs that it declared");
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (!plans_[i] || plans_[i]->pixels == nullptr) continue;
        DeviceTensor& from = outputs[i];
        const auto elements = static_cast<std::int64_t>(from.spec.elements());
        std::shared_ptr<DeviceBuffer> pixels = plans_[i]->pixels->take();
        expect(from.spec.dtype != kUInt8 && from.spec.elements() <= pixels->bytes(),
               "an output matches its declaration");
        outliers.push_back({.output = describe_output(from.spec), .memory = plans_[i]->outliers->take()});
        auto* const to = reinterpret_cast<std::uint8_t*>(pixels->data());
        kernels::make_pixels(compute, to, reinterpret_cast<float*>(outliers.back().memory->data()),
                             {.numbers = from.data,
                              .dtype = from.spec.dtype,
                              .rows = from.spec.rows(),
                              .per_row = elements / from.spec.rows(),
                              .range = range_});
        // On the CPU the stream is a thread: wait, or the source is freed before it is read.
        if (!device_.is_gpu()) compute.synchronize();
        from.spec.dtype = kUInt8;
        from.data = to;
        from.owner = std::move(pixels);
    }
}

}  // namespace offramp
