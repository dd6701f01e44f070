#include "consumer/processors/segmentation/class_ids.hpp"

#include <algorithm>
#include <string_view>

#include "common/app/images/picture_list.hpp"
#include "common/app/settings/declared_setting.hpp"
#include "consumer/processors/raw/row_chunks.hpp"

namespace offramp {

std::span<const std::uint8_t> ClassIds::of(const SegmentationOutput& output, const SampleView& sample,
                                           const Progress& progress) {
    if (!output.has_scores()) return plane_of(*output.tensor, sample, ids_);
    return output.upsample_factor > 1 || output.one_channel() ? by_lines(output, sample, progress)
                                                              : reduce(output.scores(sample.row), progress);
}

std::span<const std::uint8_t> ClassIds::of(const SegmentationOutput& output, const SampleView& sample, ImageSize size,
                                           const Progress& progress) {
    if (size == output.size()) return of(output, sample, progress);
    return output.has_scores() ? resize_scores(output, sample, size, progress)
                               : nearest(output, sample, size, progress);
}

void ClassIds::find_classes(std::span<const float> line, bool one_channel, std::span<std::uint8_t> ids) {
    if (one_channel) {
        for (std::size_t x = 0; x < line.size(); ++x) ids[x] = line[x] >= scale_.least ? 1 : 0;
        return;
    }
    const auto width = static_cast<std::int64_t>(ids.size());
    argmax_.run({.data = std::as_bytes(line).data(),
                 .dtype = kFloat32,
                 .classes = static_cast<std::int64_t>(line.size() / ids.size()),
                 .height = 1,
                 .width = width,
                 .class_stride = width,
                 .row_stride = width,
                 .column_stride = 1},
                0, 1, ids);
}

// Works line by line, so that the enlarged scores stay in the cache.
std::span<const std::uint8_t> ClassIds::by_lines(const SegmentationOutput& output, const SampleView& sample,
                                                 const Progress& progress) {
    enlarged_.begin(output.scores(sample.row), output.upsample_factor);
    const std::int64_t width = enlarged_.width();
    ids_.resize(static_cast<std::size_t>(enlarged_.height() * width));
    ProgressByBytes done(progress);
    for (std::int64_t y = 0; y < enlarged_.height(); ++y) {
        const std::span<const float> line = enlarged_.line(y);
        const auto ids = std::span(ids_).subspan(static_cast<std::size_t>(y * width), static_cast<std::size_t>(width));
        find_classes(line, output.one_channel(), ids);
        done.add(line.size_bytes());
    }
    progress();
    return ids_;
}

// Works in strips: the lines of all classes stay in the cache, however wide the picture is.
std::span<const std::uint8_t> ClassIds::resize_scores(const SegmentationOutput& output, const SampleView& sample,
                                                      ImageSize size, const Progress& progress) {
    constexpr std::uint32_t kStrip = 1024;
    resized_.begin(output.scores(sample.row), output.upsample_factor, size);
    ids_.resize(size.pixels());
    ProgressByBytes done(progress);
    for (std::uint32_t left = 0; left < size.width; left += kStrip) {
        const std::uint32_t width = std::min(kStrip, size.width - left);
        resized_.take_columns(left, width);
        for (std::uint32_t y = 0; y < size.height; ++y) {
            const std::span<const float> line = resized_.line(y);
            find_classes(line, output.one_channel(),
                         std::span(ids_).subspan(std::size_t{y} * size.width + left, width));
            done.add(line.size_bytes());
        }
    }
    progress();
    return ids_;
}

// A pixel takes the class of the output pixel that contains its centre.
std::span<const std::uint8_t> ClassIds::nearest(const SegmentationOutput& output, const SampleView& sample,
                                                ImageSize size, const Progress& progress) {
    const auto plane = plane_of(*output.tensor, sample, plane_);
    const auto [from_width, from_height] = output.size();
    ids_.resize(size.pixels());
    std::uint8_t* to = ids_.data();
    for (std::uint32_t y = 0; y < size.height; ++y) {
        const std::size_t line =
            (std::uint64_t{2} * y + 1) * from_height / (std::uint64_t{2} * size.height) * from_width;
        for (std::uint32_t x = 0; x < size.width; ++x)
            *to++ = plane[line + (std::uint64_t{2} * x + 1) * from_width / (std::uint64_t{2} * size.width)];
    }
    progress();
    return ids_;
}

std::span<const std::uint8_t> ClassIds::reduce(const ClassScores& scores, const Progress& progress) {
    ids_.resize(static_cast<std::size_t>(scores.height * scores.width));
    const auto line_bytes = scores.classes * scores.width * static_cast<std::int64_t>(scores.dtype.bytes());
    const auto rows_at_once = std::max<std::int64_t>(1, static_cast<std::int64_t>(kProgressBytes) / line_bytes);
    for (std::int64_t y = 0; y < scores.height; y += rows_at_once) {
        const std::int64_t rows = std::min(rows_at_once, scores.height - y);
        argmax_.run(scores, y, rows,
                    std::span(ids_).subspan(static_cast<std::size_t>(y * scores.width),
                                            static_cast<std::size_t>(rows * scores.width)));
        progress();
    }
    return ids_;
}

namespace {

// COCO's numbers: each letter from '0' on holds five bits, lowest first, and a sixth bit while more follow. From the
// third length on, a number is the difference from the previous length of the same kind.
std::string compressed(const std::vector<std::uint32_t>& lengths) {
    std::string text;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
        std::int64_t number = lengths[i];
        if (i > 2) number -= lengths[i - 2];
        for (bool more = true; more;) {
            auto letter = static_cast<unsigned>(number & 0x1f);
            number >>= 5;
            more = (letter & 0x10U) != 0 ? number != -1 : number != 0;
            if (more) letter |= 0x20U;
            text += static_cast<char>(letter + 48);
        }
    }
    return text;
}

// Works in blocks, so that both planes stay in the cache.
constexpr std::uint32_t kBlock = 64;

void turn(std::span<const std::uint8_t> rows, std::uint32_t width, std::uint32_t height, std::uint8_t* columns) {
    for (std::uint32_t y0 = 0; y0 < height; y0 += kBlock)
        for (std::uint32_t x0 = 0; x0 < width; x0 += kBlock)
            for (std::uint32_t x = x0; x < std::min(width, x0 + kBlock); ++x)
                for (std::uint32_t y = y0; y < std::min(height, y0 + kBlock); ++y)
                    columns[std::size_t{x} * height + y] = rows[std::size_t{y} * width + x];
}

}  // namespace

// A run may continue from the bottom of a column to the top of the next.
void ClassRuns::add_run(std::uint8_t id, std::uint64_t begin, std::uint64_t end, std::uint32_t height) {
    Reading& reading = readings_[id];
    const auto left = static_cast<std::uint32_t>(begin / height);
    const auto right = static_cast<std::uint32_t>((end - 1) / height);
    const bool one_column = left == right;
    const std::uint32_t top = one_column ? static_cast<std::uint32_t>(begin % height) : 0;
    const std::uint32_t bottom = one_column ? static_cast<std::uint32_t>((end - 1) % height) : height - 1;
    const bool first = reading.lengths.empty();
    reading.left = first ? left : reading.left;
    reading.right = right;
    reading.top = first ? top : std::min(reading.top, top);
    reading.bottom = first ? bottom : std::max(reading.bottom, bottom);
    reading.lengths.push_back(static_cast<std::uint32_t>(begin - reading.end));
    reading.lengths.push_back(static_cast<std::uint32_t>(end - begin));
    reading.area += end - begin;
    reading.end = end;
}

std::span<const ClassMask> ClassRuns::encode(std::span<const std::uint8_t> ids, std::uint32_t width,
                                             std::uint32_t height) {
    for (Reading& reading : readings_) {
        reading.lengths.clear();
        reading.end = reading.area = 0;
    }
    columns_.resize(ids.size());
    turn(ids, width, height, columns_.data());
    for (std::size_t begin = 0; begin < columns_.size();) {
        std::size_t end = begin + 1;
        while (end < columns_.size() && columns_[end] == columns_[begin]) ++end;
        add_run(columns_[begin], begin, end, height);
        begin = end;
    }
    masks_.clear();
    for (std::size_t id = 0; id < readings_.size(); ++id) {
        Reading& reading = readings_[id];
        if (reading.lengths.empty()) continue;
        if (reading.end < columns_.size())
            reading.lengths.push_back(static_cast<std::uint32_t>(columns_.size() - reading.end));
        masks_.push_back({.id = static_cast<std::uint8_t>(id),
                          .counts = compressed(reading.lengths),
                          .area = reading.area,
                          .left = reading.left,
                          .top = reading.top,
                          .width = reading.right - reading.left + 1,
                          .height = reading.bottom - reading.top + 1});
    }
    return masks_;
}

SampleMasks::SampleMasks(const ProcessorOptions& options, std::string_view processor)
    : ids_(options.foreground_scale()) {
    if (options.settings.text("mask-size") != "model" && has_originals(options.input))
        originals_.emplace(options.input, processor, options.run_dir);
}

SampleMasks::Mask SampleMasks::of(const SegmentationOutput& output, const SampleView& sample,
                                  const Progress& progress) {
    if (!originals_) return {.ids = ids_.of(output, sample, progress), .size = output.size()};
    const OriginalImages::Image picture = originals_->size_of(sample.key);
    progress();
    const auto ids = ids_.of(output, sample, picture.seen.size, progress);
    if (picture.seen.size == picture.size) return {.ids = ids, .size = picture.size};
    surround(ids, picture.seen, picture.size, surrounded_);
    return {.ids = surrounded_, .size = picture.size};
}

}  // namespace offramp
