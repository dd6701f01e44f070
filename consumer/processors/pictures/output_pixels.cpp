#include "consumer/processors/pictures/output_pixels.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/error.hpp"
#include "common/wire/tensor_spec.hpp"
#include "consumer/processors/raw/row_chunks.hpp"
#include "consumer/processors/raw/sample_array.hpp"
#include "consumer/sinks/files/output_name.hpp"

namespace offramp {
namespace {

// `reasons`: why the other outputs do not fit.
std::vector<PictureOutput> find_outputs(const SlabContents& slab, std::string& reasons) {
    std::vector<PictureOutput> fitting;
    for (const TensorView& tensor : slab.tensors) {
        const std::string reason = obstacle_to_pictures(tensor.spec);
        if (reason.empty())
            fitting.push_back({.tensor = &tensor, .suffix = {}});
        else
            reasons += "; " + describe_output(tensor.spec) + ": " + reason;
    }
    if (fitting.size() > 1)
        for (PictureOutput& output : fitting)
            output.suffix = "." + std::string(checked_output_name(output.tensor->spec.name));
    return fitting;
}

}  // namespace

std::vector<PictureOutput> picture_outputs(const SlabContents& slab, std::string_view processor) {
    std::string reasons;
    std::vector<PictureOutput> fitting = find_outputs(slab, reasons);
    if (fitting.empty())
        throw ConfigError(
            "processor " + std::string(processor) + " finds no pictures among the outputs" + slab.origin() + reasons,
            "Give it pictures, or choose another --processor");
    return fitting;
}

std::vector<PictureOutput> picture_outputs_if_any(const SlabContents& slab) {
    std::string reasons;
    return find_outputs(slab, reasons);
}

std::span<const std::byte> encoded_jpeg(const PictureOutput& output, const SampleView& sample) {
    constexpr std::array kStart{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};
    constexpr std::array kEnd{std::byte{0xff}, std::byte{0xd9}};
    const std::span<const std::byte> file = output.tensor->row(sample.row);
    const bool starts = file.size() > kStart.size() && std::ranges::equal(file.first(kStart.size()), kStart);
    if (starts && std::ranges::equal(file.last(kEnd.size()), kEnd)) return file;
    throw ConfigError(describe_output(output.tensor->spec) + " of the item '" + sample.key + "' holds " +
                          std::to_string(file.size()) + " bytes that are not a complete JPEG file" +
                          (starts ? ": the end, FF D9, is missing" : ": the beginning, FF D8 FF, is missing"),
                      "Encode pictures as JPEG, in Python by offramp.reduce.jpeg(), or choose another --processor");
}

std::span<const std::uint8_t> OutputPixels::of(const PictureOutput& output, const SampleView& sample,
                                               const Progress& progress) {
    const DType type = output.tensor->spec.dtype;
    const std::span<const std::byte> planes = planes_.of(*output.tensor, sample.row);
    const std::size_t channels = output.channels();
    const std::size_t pixels = output.size().pixels();
    pixels_.resize(pixels * channels);
    std::size_t next = 0;
    ProgressByBytes done(progress);
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) {
        for (std::size_t c = 0; c < channels; ++c, ++next) {
            const std::size_t from = c * pixels + pixel;
            pixels_[next] = type == kUInt8 ? static_cast<std::uint8_t>(planes[from])
                                           : pixel_of(number_at(planes.data(), type, from), output, sample);
        }
        done.add(channels * type.bytes());
    }
    progress();
    return pixels_;
}

void OutputPixels::refuse(float number, const PictureOutput& output, const SampleView& sample) const {
    throw ConfigError(
        describe_output(output.tensor->spec) + " of the item '" + sample.key + "' holds " + range_.objection_to(number),
        "Give the --image-range that the network has: 0:1, -1:1 or 0:255");
}

std::uint8_t OutputPixels::pixel_of(float number, const PictureOutput& output, const SampleView& sample) const {
    const float share = range_.share_of(number);
    if (!PixelRange::has_pixel(share)) refuse(number, output, sample);
    return PixelRange::pixel_of(share);
}

ImageSize size_in_proportion(ImageSize picture, ImageSize made, std::uint32_t side, std::uint32_t longest) {
    const double least = std::max(double{1} * made.width / picture.width, double{1} * made.height / picture.height);
    double width = picture.width * (side > 0 ? double{1} * made.width / side : least);
    double height = picture.height * (side > 0 ? double{1} * made.height / side : least);
    const double less = std::min(
        {1.0, longest / std::max(width, height), std::sqrt(static_cast<double>(kMaxImagePixels) / (width * height))});
    const auto whole = [&](double length) {
        const double most = less < 1.0 ? std::floor(length * less) : std::round(length);
        return static_cast<std::uint32_t>(std::clamp(most, 1.0, static_cast<double>(longest)));
    };
    return {whole(width), whole(height)};
}

}  // namespace offramp
